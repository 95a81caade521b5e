"""Masks: what is volatile in a text, replaced by its kind.

By kind of token, never by the words of one tool, except for formats that are documented (a frame of Python, the name of
a temporary object file). Every pattern is linear: what is repeated never overlaps with what follows it, or the count is
bounded. Two failures must stay two: what is masked is what another day, machine, folder or port would change, and what
stands in quotes is judged like everything else, since it is often the telling part.

A change of any mask needs a new SIGNATURE_VERSION, because signatures are compared with those in older ledgers.
"""

from __future__ import annotations

import re
from collections.abc import Callable

ID_CHARS_MIN = 16


def masked(text: str) -> str:
    """The text with everything volatile replaced by its kind. Masking twice changes nothing more."""
    text = _tidy(text)
    for mark, pattern, kind in _MASKS:
        if mark in text:
            text = pattern.sub(kind, text)
    text = _NUMBER.sub(_masked_number, text)
    for mark, pattern, kind in _MASKS_AROUND_NUMBERS:
        if mark in text:
            text = pattern.sub(kind, text)
    return text


def _tidy(text: str) -> str:
    """Without colours and spinners, one kind of quote, every run of blanks one space: the masks rely on it."""
    text = without_colours(text)
    if not text.isascii():
        text = _BLOCKS.sub("<bar>", _SPINNER.sub(" ", text)).translate(_QUOTES)
    text = text.replace('"', "'").replace("`", "'")
    if "\n" not in text:
        return " ".join(text.split())
    return "\n".join([" ".join(line.split()) for line in text.split("\n")])


def without_colours(text: str) -> str:
    return _ANSI.sub("", text) if "\x1b" in text else text


def _masked_path(found: re.Match[str]) -> str:
    """By its last name, since the folders above are others elsewhere; the project's own folder by nothing; what the
    system keeps at one place everywhere by all of it.

    What is installed counts from the root of its library on. Line numbers: a frame outside the project loses its own,
    because it moves with every upgrade. A frame in the project keeps it: failures at two lines are two failures, and
    where an edit moved the line the diff is another one too, so that nothing is gained by calling them the same.
    """
    path, line = found["path"].replace("\\", "/"), found["line"] or ""
    if _REQUEST.search(found.string, max(0, found.start() - 8), found.start()):
        return found.group()
    if library := _LIBRARY.match(path):
        return f"<lib>/{path[library.end() :]}{_LINE_NUMBER.sub('<n>', line)}"
    if _SYSTEM.match(path):
        name = path if _FIXED.match(path) else f"/{_last_name(path)}"
        return name + _LINE_NUMBER.sub("<n>", line)
    if _is_project_folder(found, path):
        return "/<dir>" + line
    return f"/{_masked_name(path)}{line}"


def _masked_path_in_library(found: re.Match[str]) -> str:
    """A relative path keeps its folders: they are the project's own. Only what leads to a library goes."""
    return _masked_path(found) if _LIBRARY.match(found["path"]) else found.group()


def _is_project_folder(found: re.Match[str], path: str) -> bool:
    """A path alone cannot tell whether its last name is the project's folder or one of several in it: formats can."""
    before, text = max(0, found.start() - 32), found.string
    return (
        _HOME.fullmatch(path) is not None
        or _FOLDER_LEAD.search(text, before, found.start()) is not None
        or text.startswith(_FOLDER_END, found.end())
    )


def _masked_name(path: str) -> str:
    name = _last_name(path)
    is_temporary = path.removesuffix("/").rpartition("/")[0] in _TEMPORARY_FOLDERS
    return _RANDOM_PART.sub("<tmp>", name) if is_temporary else name


def _last_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _masked_user(found: re.Match[str]) -> str:
    """Who it was is another one elsewhere; where it was is telling. A unit of systemd is no address."""
    host = found[2]
    return found.group() if host.endswith(_UNIT_ENDINGS) else f"<user>@{host}"


def _masked_hash(hexadecimal: re.Match[str]) -> str:
    """Letters and figures mixed are a hash; figures alone are a number, letters alone a word unless eight."""
    word = hexadecimal.group()
    if word.isdigit() or (word.isalpha() and len(word) != 8):
        return word
    return "<n>"


def _masked_id(found: re.Match[str]) -> str:
    """A long word with figures all over it is nobody's name; nor is the name of a message in a mail queue."""
    word = found.group()
    if _QUEUED.fullmatch(word) and not (word[:8].islower() or word[:8].isupper()):
        return "<n>"
    figures = _FIGURES.findall(word)
    is_id = len(word) >= ID_CHARS_MIN and len(figures) >= 3 and 5 * sum(map(len, figures)) >= len(word)
    return "<n>" if is_id else word


def _masked_number(number: re.Match[str]) -> str:
    """Numbers are volatile, but an exit code, a status, an error code or a line says which failure it is."""
    word, start, text = number.group(), number.start(), number.string
    # The last character before it is looked at first, because most numbers are none of these.
    before = text[start - 1 : start]
    if before in _BEFORE_LINE and _LINE_LEAD.search(text, max(0, start - 16), start):
        return word if _LINE.fullmatch(word) else "<n>"
    if len(word) > 5 or not word.isdigit():
        return word if _STATUS_HEX.fullmatch(word) else "<n>"
    return word if _is_code(word, before, text, start) else "<n>"


def _is_code(word: str, before: str, text: str, start: int) -> bool:
    if text[start + len(word) : start + len(word) + 1].isalnum():
        return False
    if before.isupper() or before == "-":
        return len(word) > 2 and _CODE_LETTERS.search(text, max(0, start - 9), start) is not None
    return before in _BEFORE_CODE and _CODE_WORD.search(text, max(0, start - 16), start) is not None


_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)|[@-Z\\^_])?")
_SPINNER = re.compile("[\u2800-\u28ff]+")
_QUOTES = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00b4\u00ab\u00bb\u2039\u203a", "'")
)
_HEX = "[0-9a-fA-F]"
_NAME = r"[\w.+@%~#-]+"
_MONTH = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_BAR = "=#*~_.+─-"
_AT_LINE = r"(?P<line>:[0-9]+(?::[0-9]+)?|', line [0-9]+)?"

_BLOCKS = re.compile("[█▉▊▋▌▍▎▏▓▒░━╸╺]+ ?")
_PROGRESS_BAR = re.compile(rf"\[[ >{_BAR}]{{3,}}\]")
_RULE = re.compile(rf"([{_BAR}])\1{{3,}}")
_WINDOWS_PATH = re.compile(
    rf"[A-Za-z](?<![\w>/\\].):(?P<path>\\(?:[\w.+@%~#=() -]{{1,255}}\\){{0,64}}{_NAME})(?!:\\){_AT_LINE}"
)
# After a word it is the rest of a relative path or of a URL; after an option of one letter (-I/usr/…) it is not.
_PATH = re.compile(
    rf"(?P<path>/(?:(?<![\w./~\\)\]>@%#+-].)|(?<=[ ]-[A-Z]/))"
    rf"(?:(?:{_NAME}|\[redacted\])/+)+{_NAME}/?){_AT_LINE}"
)
_HOME_PATH = re.compile(rf"~(?<![\w./~\\)\]>@%#+-].)(?P<path>/(?:{_NAME}/+)*{_NAME}/?){_AT_LINE}")
_PYTHON_FRAME = re.compile(rf"(?<=File ')(?P<path>[/\\~][^'\n]{{1,1024}}){_AT_LINE}")
_LIBRARY = re.compile(
    r"(?:.*/)?(?:site-packages|dist-packages|node_modules|lib/python[0-9.]+|Python[0-9]+/Lib|\.cargo/registry/src/[^/]+"
    r"|rustc/[0-9a-f]+|go/pkg/mod|go/src|gems|\.m2/repository)/"
)
_IN_LIBRARY = re.compile(rf"(?<![\w./~\\>@%+#=-])(?P<path>(?:{_NAME}/+)+{_NAME}){_AT_LINE}")
_SYSTEM = re.compile(
    r"/(?:usr|etc|bin|sbin|lib[0-9]*|proc|sys|dev|run|boot|var/(?:log|run|cache|spool)|Library|System|Applications"
    r"|Windows|Program Files)/"
)
# The same on every machine, folders and all.
_FIXED = re.compile("/(?:etc|proc|sys|dev|run|boot|var/log)/")
_REQUEST = re.compile(r"(?<![\w/])(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) \Z")
_LINE_NUMBER = re.compile("[0-9]+(?::[0-9]+)?")
_TEMPORARY_FOLDERS = frozenset({"/tmp", "/var/tmp", "/private/tmp"})
_HOME = re.compile(r"/(?:home|Users)/[^/]+/?")
# pytest's header, the package of cargo's (`shop v0.1.0 (/…)`), npm's failed script; cargo without a manifest.
_FOLDER_LEAD = re.compile(r"(?:\brootdir: | v[0-9][\w.+-]{0,24} \(|\bnpm (?:error|ERR!) path )\Z")
_FOLDER_END = "' or any parent directory"
# What mkstemp puts into a name, and the names of object files on their way to the linker.
_RANDOM_PART = re.compile(
    r"^cc[A-Za-z0-9]{6}(?=\.)|(?<=[-._])(?=[A-Za-z_]*[0-9]+[A-Za-z])[A-Za-z0-9_]{6,12}(?=\.|$)"
)
_TEMPORARY = re.compile(r"tmp(?<![A-Za-z0-9>]...)(?:[a-z0-9_]{8}|\.[A-Za-z0-9]{6,10})(?!\w|<[nd]>)")
_DATE = re.compile(
    r"[0-9]{4}(?<![0-9].{4})([-/])[0-9]{1,2}\1[0-9]{1,2}"
    r"(?:[T _][0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?:Z| ?[+-][0-9]{2}:?[0-9]{2})?)?(?![0-9])"
)
_DATE_WORD = re.compile(
    rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|{_MONTH})(?<![\w>]...)[a-z]{{0,6}}[.,]?(?=[ /-](?:[0-9]|{_MONTH}))"
)
_ZONE_OFFSET = re.compile(r"(?<=:[0-9]{2}) [+-][0-9]{2}:?[0-9]{2}(?![0-9])")
_SHORT_IPV6 = re.compile(
    rf"(?<![\w:>])(?=[a-fA-F:]{{0,12}}[0-9])(?:{_HEX}{{1,4}}:){{0,6}}(?::{_HEX}{{1,4}}){{1,6}}(?![\w:]|<n>)"
)
_IPV6_OR_MAC = re.compile(rf"{_HEX}(?<![\w>].){_HEX}{{0,3}}(?::{_HEX}{{1,4}}){{5,7}}(?![\w:]|<n>)")
_DASHED_MAC = re.compile(rf"{_HEX}(?<![\w>-].){_HEX}(?:-{_HEX}{{2}}){{5}}(?![\w-]|<n>)")
# What a peer's address is called in brackets after it, when it has a name at all.
_NAMED_PEER = re.compile(r"(?<=[0-9]\.)[0-9]{1,3} \((?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}\)")
_USER = re.compile(
    r"(?<![\w.@/+>-])([\w.+-]{1,64})@"
    r"((?:[A-Za-z][\w-]{0,62}\.){1,8}[A-Za-z]{2,24}|[0-9]{1,3}(?:\.[0-9]{1,3}){3})(?![\w@]|<n>)"
)
_UNIT_ENDINGS = (".service", ".socket", ".device", ".mount", ".swap", ".target", ".timer", ".slice", ".scope")
_OBJECT = re.compile(r"(?<=\w)@(?=[a-f]{0,5}[0-9])[0-9a-f]{4,6}(?![\w.-])")
_UUID = re.compile(
    rf"{_HEX}(?<![A-Za-z0-9].){_HEX}{{7}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}(?![A-Za-z0-9]|<n>)"
)
_POD_LETTER = "[bcdfghjklmnpqrstvwxz2456789]"
_POD = re.compile(
    rf"(?<=[a-z0-9])-(?={_POD_LETTER}{{0,9}}[0-9]){_POD_LETTER}{{6,10}}-{_POD_LETTER}{{5}}(?![\w-])"
)
_HASH = re.compile(rf"{_HEX}(?<![A-Za-z0-9].)(?<!<n>.){_HEX}{{6,}}(?![A-Za-z0-9]|<n>)")
_ID = re.compile(r"[A-Za-z0-9](?<![A-Za-z0-9].)(?<!<n>.)[A-Za-z0-9]{13,}(?![A-Za-z0-9]|<n>)")
_QUEUED = re.compile("(?=[A-Za-z]*[0-9])[A-Za-z0-9]{8}[0-9]{6}")
_COMPUTER = re.compile(
    r"(?<![A-Za-z0-9])(DESKTOP|LAPTOP|WIN|MININT|EC2AMAZ)-[A-Z0-9]{6,11}(?![A-Za-z0-9]|<n>)"
)
_FIGURES = re.compile("[0-9]+")
_JAVA_FRAME = re.compile(r"((?:java|javax|jdk|sun)\.[\w.$/<>]{1,256}\(\w{1,128}\.java:)[0-9]+")

_Masks = tuple[tuple[str, re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]
_MASKS: _Masks = (
    ("[", _PROGRESS_BAR, "<bar>"),
    ("", _RULE, "<bar>"),
    ("file:///", re.compile("(?:file://)+(?=/)"), ""),
    (":///", re.compile(":///+"), ":/"),
    ("File '", _PYTHON_FRAME, _masked_path),
    (":\\", _WINDOWS_PATH, _masked_path),
    ("/", _PATH, _masked_path),
    ("~/", _HOME_PATH, _masked_path),
    ("node_modules/", _IN_LIBRARY, _masked_path_in_library),
    ("-packages/", _IN_LIBRARY, _masked_path_in_library),
    ("lib/python", _IN_LIBRARY, _masked_path_in_library),
    (".java:", _JAVA_FRAME, r"\1<n>"),
    ("tmp", _TEMPORARY, "<tmp>"),
    ("-", _DATE, "<d>"),
    ("/", _DATE, "<d>"),
    (" ", _DATE_WORD, "<d>"),
    (":", _ZONE_OFFSET, ""),
    ("::", _SHORT_IPV6, "<addr>"),
    (":", _IPV6_OR_MAC, "<addr>"),
    ("-", _DASHED_MAC, "<addr>"),
    (" (", _NAMED_PEER, "0 ()"),
    ("@", _USER, _masked_user),
    ("@", _OBJECT, "@<n>"),
    ("-", _UUID, "<n>"),
    ("-", _POD, "-<n>"),
    ("-", _COMPUTER, r"\1-<n>"),
    ("", _HASH, _masked_hash),
    ("", _ID, _masked_id),
)

_UNIT = (
    " ?(?:[nuµm]s|(?:milli|micro|nano)?seconds?|secs?|mins?|minutes?|hrs?|hours?|days?|weeks?|[smhd%]"
    "|(?:[KMGTkmgt]i?[Bb]|B|bytes?)(?:/s(?:ec)?)?|(?:it|req)/s|[AaPp][Mm])(?![A-Za-z0-9]|<n>)"
)
_SHORT_UNIT = "(?:[nuµm]s|[wdhms])"
_COMPOUND = (
    rf"{_SHORT_UNIT}(?=[0-9])(?:[0-9]{{1,12}}(?:[.][0-9]{{1,9}})?{_SHORT_UNIT}){{1,5}}(?![A-Za-z0-9]|<n>)"
)
_MORE = rf"(?:(?:,| and)? ?[0-9]{{1,12}}(?:[.][0-9]{{1,9}})?{_UNIT}){{0,3}}"
# It begins with a plain class of characters, because the search for such a beginning is fast.
_NUMBER = re.compile(
    rf"[0-9]+(?:(?<=(?<![0-9])0)[xX]{_HEX}+|(?:[.,:][0-9]+)*(?:{_COMPOUND}|{_UNIT}{_MORE})?)"
)
_CODE_WORD = re.compile(
    r"(?:(?<![A-Za-z0-9])(?i:status|code|errno|error|exit|signal)|(?<=[a-z])Code)(?: of)? ?[:=(]? ?\Z"
    r"|(?<![A-Za-z0-9])HTTP(?:/(?:[0-9.]+|<n>)'?)? \Z"
)
_CODE_LETTERS = re.compile(r"(?<![A-Za-z0-9])[A-Z]{1,8}-?\Z")
_STATUS_HEX = re.compile(r"0x[8Cc]0[0-9A-Fa-f]{6}")
_SOURCE = (
    "asm|bash|c|cc|cjs|clj|cpp|cs|cts|cu|cxx|dart|erl|exs?|f90|fs|go|h|hpp|hs|java|jl|jsx?|kts?|lua|mjs|mm?|mts|php|pl|pm"
    "|ps1|pyi?|pyx|R|rb|rs|s|S|scala|sh|sql|svelte|swift|tsx?|vue|zig|zsh"
)
_LINE_LEAD = re.compile(rf"\.(?:{_SOURCE})'?(?:[:(]|:? ?,? line )\Z")
_BEFORE_LINE = frozenset(":( ")
_BEFORE_CODE = frozenset(":=( seortl")
_LINE = re.compile("[0-9]+(?:[:,][0-9]+)?")
_ZONES = "UTC|GMT|[ECMP][SD]T|[CEW]ES?T|[BIJK]ST|A[CEW][SD]T|NZ[SD]T|MSK|HKT|SGT"
_FILE_ENDINGS = "gz|bz2?|xz|zst|zip|log|txt|json|xml|csv|ya?ml|html?"
# A host that is called after its address.
_ADDRESS_NAME = re.compile(
    r"(?<![\w.<>-])[A-Za-z-]{0,64}<n>(?:-<n>){3}[A-Za-z0-9-]{0,64}"
    rf"(?:\.(?!(?:{_FILE_ENDINGS}|{_SOURCE})(?!\w))(?:[A-Za-z0-9-]|<n>){{1,63}}){{1,8}}(?![\w<-])(?!\.\w)"
)
_MASKS_AROUND_NUMBERS: _Masks = (
    ("<<n>", re.compile("<+(?=<n>)"), ""),
    ("<n>-<n>-<n>-<n>", _ADDRESS_NAME, "<n>"),
    ("-<n>", re.compile(r"(?<=[ =(,:\[_])-(?=<n>)"), ""),
    ("T", re.compile(rf"(?<=<[nd]>)(?: (?:{_ZONES})(?![A-Za-z0-9<]))+"), ""),
)
