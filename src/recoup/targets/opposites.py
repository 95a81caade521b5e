"""Words that must never be taken for one another, and words that mean the same on a page.

Small on purpose: what people write on buttons, in languages that many of them read. A word may have several
opposites.
"""

from __future__ import annotations

from typing import Final

_OPPOSITES: Final = """
approve accept allow agree confirm grant | reject decline deny refuse disagree disapprove revoke
save submit keep | delete remove discard erase cancel
add create insert new | delete remove
enable activate on start | disable deactivate off stop
start play resume run | stop pause abort end
open expand show unfold | close collapse hide fold
next forward | previous prev back backward
in login signin | out logout signout up signup register
up signup register | in login signin out logout signout
up upper above | down lower below
first | last
left | right
increase raise more plus | decrease lower less minus
buy | sell
deposit | withdraw
send | receive
import upload | export download
encrypt lock | decrypt unlock
mute | unmute
follow | unfollow
like | dislike unlike
subscribe | unsubscribe
select check | deselect unselect uncheck
connect attach link | disconnect detach unlink
install | uninstall
archive | unarchive
block ban | unblock unban
pin | unpin
publish | unpublish
undo | redo
yes | no
all | none
min minimum minimize | max maximum maximize
ascending asc | descending desc
public | private
men mens male | women womens female
lock | unlock
mount | unmount
register | unregister
freigeben genehmigen annehmen akzeptieren erlauben zustimmen bestätigen | ablehnen verweigern verbieten
speichern sichern behalten | löschen entfernen verwerfen abbrechen
hinzufügen erstellen neu anlegen | löschen entfernen
aktivieren ein einschalten | deaktivieren aus ausschalten
weiter nächste nächster nächstes vor | zurück vorherige vorheriger vorheriges
anmelden einloggen | abmelden ausloggen registrieren
öffnen anzeigen ausklappen | schließen verbergen ausblenden einklappen
starten fortsetzen | stoppen anhalten beenden pausieren
kaufen | verkaufen
hochladen | herunterladen
ja | nein
approuver accepter autoriser valider confirmer | refuser rejeter décliner interdire
enregistrer sauvegarder conserver garder | supprimer effacer annuler
ajouter créer nouveau | supprimer retirer
activer | désactiver
suivant suivante | précédent précédente retour
connexion connecter identifier | déconnexion déconnecter inscription inscrire
ouvrir afficher | fermer masquer
démarrer reprendre lancer | arrêter suspendre
acheter | vendre
oui | non
aprobar aceptar permitir confirmar | rechazar denegar
guardar conservar | eliminar borrar descartar cancelar
añadir agregar crear nuevo | eliminar borrar quitar
activar habilitar | desactivar deshabilitar
siguiente | anterior atrás volver
iniciar entrar acceder | cerrar salir registrarse
abrir mostrar | cerrar ocultar
comprar | vender
sí | no
approvare accettare consentire conferma confermare | rifiutare negare respingere
salva salvare conserva | elimina eliminare cancella annulla
aggiungi crea nuovo | elimina rimuovi
attiva attivare abilita | disattiva disattivare disabilita
avanti successivo successiva | indietro precedente
accedi entra | esci registrati
apri mostra | chiudi nascondi
acquista compra | vendi
goedkeuren accepteren toestaan bevestigen | afwijzen weigeren
opslaan bewaren | verwijderen annuleren
toevoegen nieuw | verwijderen
inschakelen aan | uitschakelen uit
volgende | vorige terug
inloggen aanmelden | uitloggen afmelden registreren
aprovar aceitar permitir | rejeitar recusar
salvar | excluir apagar cancelar
adicionar criar novo | excluir remover
ativar | desativar
próximo próxima seguinte avançar | anterior voltar
zatwierdź akceptuj zezwól potwierdź | odrzuć odmów
zapisz zachowaj | usuń anuluj
dodaj utwórz nowy | usuń
włącz | wyłącz
następny dalej | poprzedni wstecz
zaloguj | wyloguj zarejestruj
"""

_SAME: Final = """
sign in | log in | login | signin | log on
sign up | register | create account | create an account | join | signup | join now | registration
log out | sign out | logout | signout | log off
cart | basket | bag | shopping cart | my cart | view cart | shopping bag
search | find | go | search button
help | support | help center | help centre | customer service | get help | faq
contact | contact us | get in touch
home | home page | homepage | start page
settings | preferences | options
save | save changes | apply
send | submit
next | continue | proceed
delete | remove
edit | change | modify
account | my account | your account | profile | my profile
jobs | careers | work with us
terms | terms of use | terms of service | terms and conditions | conditions of use
privacy | privacy policy | privacy notice
about | about us | company
buy | buy now | purchase | order | order now | checkout | check out
subscribe | newsletter
menu | navigation | open menu | main menu
close | dismiss
anmelden | einloggen | login
registrieren | konto erstellen | konto anlegen
warenkorb | einkaufswagen
suche | suchen
hilfe | support
connexion | se connecter | sidentifier
sinscrire | inscription | créer un compte
panier | mon panier
rechercher | recherche
iniciar sesión | entrar | acceder
registrarse | crear cuenta
"""

_DOING: Final = """
pay refund charge donate transfer buy sell order book reserve rent
view edit change rename move copy share print send reply forward post comment report
call mail invite assign merge split ship return cancel restore reset renew extend upgrade downgrade
sign log search find filter sort download upload import export
zahlen bezahlen erstatten überweisen bestellen buchen ansehen bearbeiten ändern umbenennen verschieben kopieren teilen
drucken senden antworten weiterleiten melden einladen zuweisen wiederherstellen zurücksetzen verlängern
payer rembourser commander réserver voir modifier renommer déplacer copier partager imprimer envoyer répondre
pagar reembolsar pedir reservar ver editar renombrar mover copiar compartir imprimir enviar responder
pagare rimborsare ordinare prenotare modifica sposta copia condividi stampa invia
"""


def are_opposites(mine: frozenset[str], its: frozenset[str]) -> bool:
    """One says what the other says the opposite of, and neither says both."""
    ours, theirs = mine - its, its - mine
    return any(not theirs.isdisjoint(_OPPOSITE_OF[word]) for word in ours if word in _OPPOSITE_OF)


def opposites_of(words: frozenset[str]) -> frozenset[str]:
    """Every word that says the opposite of one of these."""
    return frozenset[str]().union(*[_OPPOSITE_OF[word] for word in words if word in _OPPOSITE_OF])


def meaning_of(said: str) -> str:
    """A name for all the ways to say the same; "" where we know none."""
    return _MEANING.get(said, "")


def _opposite_of() -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for line in _OPPOSITES.strip().splitlines():
        one, other = (frozenset(side.split()) for side in line.split("|"))
        for side, against in ((one, other), (other, one)):
            for word in side:
                found[word] = found.get(word, frozenset()) | against
    return found


def _meanings() -> dict[str, str]:
    ways = [[way.strip() for way in line.split("|")] for line in _SAME.strip().splitlines()]
    return {way: line[0] for line in reversed(ways) for way in line}


_OPPOSITE_OF: Final = _opposite_of()
_MEANING: Final = _meanings()
ACTIONS: Final = frozenset(_OPPOSITE_OF) | frozenset(_DOING.split())
"""Words that say what is done: one in place of another makes it another button, whatever it is done to."""
