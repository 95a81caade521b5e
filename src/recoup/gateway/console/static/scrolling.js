// What can be scrolled sideways can be reached by keyboard, too; what fits is no stop on the way.
const reach = () => {
  for (const one of document.querySelectorAll(".scroll, pre")) {
    const overflows = one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight;
    if (overflows) one.tabIndex = 0;
    else one.removeAttribute("tabindex");
  }
};

reach();
addEventListener("resize", reach);
document.addEventListener("htmx:afterSettle", reach);
document.addEventListener("toggle", reach, true);
