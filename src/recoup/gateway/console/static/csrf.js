// The word that every change must carry besides the cookie. It lies in the storage of this origin: cookies are sent to every
// port of this host, storage is not. No page and no answer but that to signing in holds it.
const PLACE = "recoup-csrf";

export const csrf = () => localStorage.getItem(PLACE) || "";
export const keepCsrf = (word) => localStorage.setItem(PLACE, word);
export const dropCsrf = () => localStorage.removeItem(PLACE);
