"""Pages for people, made on the server. They look; whatever they change goes through the HTTP API like everybody's.

    routers.py      the pages of each subject, in the order of the menu
    pages.py        what every page has: a template, the reader's rights, an error as a page
    menu.py         entries of the menu, and what waits behind them
    NAME.py         the pages of a subject: reads, and hands values to a template
    NAME_views.py   those values, made of recorded facts
    templates/      what is printed
    static/         styles and scripts

To add a page: a module with `router = Pages(MenuEntry(path, name))`, its template, and its name in `routers.PAGES`.
It is for those who may look; only `access.MAY` opens a page to everybody (tests/integration/test_gateway.py).
"""
