"""Secrets that can be told by the text around them: assignments, headers, URLs, connection strings, hashes, keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from recoup.redaction.patterns.rule import Gate, Rule


def shape_rules() -> Iterator[Rule]:
    for name, (pattern, gate) in {**_ASSIGNMENTS, **_SHAPES}.items():
        yield Rule(
            f"recoup.shape.{name}",
            pattern,
            gate,
            _SCREENS.get(name, ""),
            name in _LAST_RESORTS,
            needs=_NEEDS.get(name, ()),
        )
    yield Rule("recoup.pair.user", _PAIR_OPENS, screen=_PAIR_OPENS, opens_pair=True)
    for name, pattern in _BLOCKS.items():
        yield Rule(f"recoup.block.{name}", pattern, screen=_FIRST_LINES[name], opens_block=True)


_STRONG: Final = (
    r"pass(?:word|wd|phrase|code)|[._-]pass\b|pwd|secret|token|api[_. -]?key|apikey"
    r"|(?:access|account|admin|app|application|auth|client|consumer|deploy|encryption|license|master|private"
    r"|project|publish|service|shared|signing|ssh|storage|subscription|user|write)[_. -]?key"
    r"|credential|authorization|(?:api|auth)[_. -]?(?:code|hash|pass)"
)
_WEAK: Final = (
    "key|auth|pass|sid|pat|dsn|pw|salt|cookie|bearer|sas|jwt|otp|api|login|client[_-]?id|webhook|hmac"
)
_ASSIGN: Final = r"[\"'`\]\)]{0,3}[ \t]{0,12}(?:=>|:=|={1,3}|:|->|\|\||\?=)[ \t]{0,12}"
_QUOTED_ASSIGN: Final = (
    r"[\"'`\]\)]{0,3}(?:[ \t]{0,12}(?:=>|:=|={1,3}|:|->|\|\||\?=)|[ \t]{1,3}(?i:is|was|set t"
    r"o|to))[ \t]{0,12}"
)
_LISTED_ASSIGN: Final = (
    r"[\"'`\]\)]{0,3}[ \t]{0,12}(?:[=:]>?|:=|==|->|\|\||\?=|,|[ \t](?i:is|was|to))[ \t]{0,12}"
)
_TAIL: Final = r"[\w.\[\]-]{0,24})\\{0,3}"
_WEAK_TAIL: Final = r"(?:[_-]?(?i:id|value|string|data|\d{1,2}))?"
_OPENS: Final = r"(?:[A-Za-z_.]{1,16}\()?[bBfFrRuU@$]{0,2}\\{0,3}"
_BARE: Final = r"[^\s\"'`,;&<>(){}\[\]|\\]"

_ASSIGNMENTS: Final = {
    "assigned": (
        rf"(?P<name>(?i:{_STRONG}){_TAIL}(?:{_QUOTED_ASSIGN}{_OPENS}(?:\"(?P<quoted>[^\"\n]{{4,}})|"
        rf"['`](?P<ticked>[^'`\n]{{4,}}))"
        rf"|{_ASSIGN}(?P<bare>{_BARE}{{5,}}))",
        Gate.NAMED,
    ),
    "listed": (
        rf"(?P<name>(?i:{_STRONG}){_TAIL}[\"'`],[ \t]{{0,12}}{_OPENS}[\"'`](?P<secret>[^\"'`\n]{{4,}})",
        Gate.NAMED_LISTED,
    ),
    "weak": (
        rf"(?P<name>\b[\w.-]*?(?:(?i:\b(?:{_WEAK}))|(?i:[_-](?:{_WEAK}))|[a-z0-9](?:Key|Auth|L"
        rf"ogin|Api|Pat)){_WEAK_TAIL})\\{{0,3}}{_LISTED_ASSIGN}{_OPENS}"
        r"[\"'`]?(?P<secret>[A-Za-z0-9+/=_.~:-]{16,})",
        Gate.NAMED_KEY,
    ),
    "loose": (
        rf"(?P<name>\b[\w.-]*?(?i:{_STRONG}|key|auth|bearer)[\w-]{{0,24}})(?:[^\w\n][^\n]"
        rf"{{0,24}}?)?[^\w.+/\n-]"
        r"(?P<secret>[A-Za-z0-9+/_~-][A-Za-z0-9+/_.~-]{19,}={0,2})",
        Gate.NAMED_LOOSELY,
    ),
    "flag": (
        rf"(?:^|\s)--?(?i:[a-z-]{{0,24}}(?P<name>(?:{_STRONG})[a-z-]{{0,12}}))[ \t]{{1,4}}[\"']?(?P"
        rf"<secret>[^\s\"'<>\[\]$-][^\s\"']{{4,}})",
        Gate.NAMED_BARE,
    ),
    "pair": (
        rf"(?i:name|key|id|field|header)[\"']?\s{{0,4}}[:=]\s{{0,4}}[\"']?[\w.-]{{0,32}}(?P<name>(?"
        rf"i:{_STRONG})[\w-]{{0,16}})[\"']?"
        r"[,;/\s]{1,24}[\"']?(?i:value|val|default)[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?P<secret>[^\s\"',;]{5,})",
        Gate.NAMED_QUOTED,
    ),
    "variable": (
        rf"(?i:variable)\s{{1,3}}\"[\w.-]{{0,32}}(?P<name>(?i:{_STRONG})[\w-]{{0,16}})\"\s{{0,3}}"
        rf"\{{\s{{0,8}}(?:[^\n}}]{{0,80}}\n\s{{0,8}})?"
        r"default\s{0,12}=\s{0,4}\"(?P<secret>[^\"\n]{4,})",
        Gate.NAMED_QUOTED,
    ),
    "element": (
        rf"(?i:<(?:[\w:.-]{{0,32}})?(?P<name>(?:{_STRONG})[\w:-]{{0,24}}))(?:\s[^>\n]{{0,120}})?>\s"
        rf"{{0,16}}(?:<[\w:]{{1,16}}>)?(?P<secret>[^<\s][^<\n]{{3,}})<",
        Gate.NAMED_QUOTED,
    ),
    "property_list": (
        rf"<key>[^<\n]{{0,40}}(?P<name>(?i:{_STRONG})[^<\n]{{0,24}})</key>\s{{0,24}}<string>(?P<sec"
        rf"ret>[^<\n]{{4,}})<",
        Gate.NAMED_QUOTED,
    ),
    "attribute": (
        rf"(?i:(?:key|name)=\"[^\"\n]{{0,32}}(?P<name>(?:{_STRONG})[^\"\n]{{0,16}}))\"\s{{1,4}}valu"
        rf"e=\"(?P<secret>[^\"\n]{{4,}})\"",
        Gate.NAMED_QUOTED,
    ),
}
"""Beside the value they capture its name from the word on that tells, for the gates."""

_IS: Final = r"(?:\s{0,3}[=:]{1,2}>?\s{0,3}|[ \t]{1,3})"
_EQUALS: Final = r"\s{0,3}[=:]{1,2}>?\s{0,3}"
_SECOND: Final = r"(?:[\"'](?P<quoted>[^\s\"']{3,})|(?P<bare>[^\s\"',;&()\[\]{}]{3,})(?:[\s\"',;&)]|$))"
_PAIRED: Final = "appid|clientid|client_id|keyid"

_LAST_RESORTS: Final = ("loose", "authorization_other", "basic_credentials")

_SHAPES: Final = {
    "url_password": (
        r"[A-Za-z][A-Za-z0-9+.-]{1,24}://(?:(?P<secret_user>[^\s/?#:@\"'<>`]{1,128}))?:(?P<secret>[^\s/?#\"'<>`]"
        r"{3,256})@[\w\[.%$-]",
        Gate.LITERAL,
    ),
    "driver_url": (
        r"(?:^|[\s\"'=])(?P<secret_user>[\w.-]{1,64}):(?P<secret>[^\s:/\"'@]{3,128})@(?:tcp|unix)\(",
        Gate.PASSWORD,
    ),
    "webhook": (
        r"/(?i:web)?(?i:hooks?|hookb2|incomingwebhook)/(?P<secret>[A-Za-z0-9_/@-]{20,})",
        Gate.RANDOM,
    ),
    "unseal": (r"\bunseal\b[^\n]{0,40}?\s(?P<secret>[A-Za-z0-9+/]{40,80}={0,2})", Gate.RANDOM),
    "url_token": (r"https?://(?P<secret>[A-Za-z0-9_-]{20,}):?@[\w.-]", Gate.RANDOM),
    "url_query": (
        r"[?&;](?i:(?P<name>sig|signature|x-amz-(?:signature|security-token)|code|key|auth|access_"
        r"token|sv_sig|hmac))=(?P<secret>[^\s&\"'<>;]{16,})",
        Gate.RANDOM,
    ),
    "authorization": (
        r"(?i:\b(?:proxy-)?authorization\b)[\"'\]]{0,2}\s{0,3}[:=,]{1,2}\s{0,3}[\"']{0,2}(?i:basic"
        r"|bearer|token|digest|apikey|negotiate|ntlm|aws4-hmac-sha256|ssws|key|hmac|bot|oauth|splu"
        r"nk|genie_?key)[ =:]{1,2}[\"']?(?P<secret>[^\s\"'`<>][^\"'`\n<>]{3,})",
        Gate.PASSWORD,
    ),
    "authorization_other": (
        r"(?i:\b(?:proxy-)?authorization\b)[\"'\]]{0,2}\s{0,3}[:=,]{1,2}\s{0,3}[\"']{0,2}[A-Za-z][\w-]{0,24}[ \t]{1"
        r",2}[\"']?(?P<secret>[^\s\"'`<>,;]{8,}[^\"'`\n<>]*)",
        Gate.RANDOM,
    ),
    "authorization_part": (
        r"(?i:\b(?:response|signature|mac|oauth_(?:signature|token|consumer_key|verifier)))=\\{0,2}[\"']?(?P<secret"
        r">[A-Za-z0-9+/%=_-]{24,})",
        Gate.RANDOM,
    ),
    "bearer": (
        r"(?i:\b(?:bearer|ssws|bot)\s{1,3})(?P<secret>[A-Za-z0-9_.+/~=-]{16,})"
        r"|(?i:\bbasic\s{1,3})(?P<basic_token>[A-Za-z0-9+/]{16,}={0,2})(?:[^\w.-]|$)",
        Gate.RANDOM,
    ),
    "header": (
        r"(?i:\b(?:x-[a-z-]{0,24}(?:key|token|auth|secret|signature)|private-token|job-token|deplo"
        r"y-token|api-key|circle-token|[a-z-]{0,20}crumb|dd-api-key|ocp-apim-subscription-key))[\"']?\s{0,2}[:=]\s{0,2}[\"']?(?P<secret>[^\s\"'`<>][^\"'`\n<>]{5,})",
        Gate.PASSWORD,
    ),
    "cookie": (
        r"(?i:\b(?:set-)?cookie)[\"']?\s{0,2}[:=]\s{0,2}[\"']?(?P<secret>[^\s\"'`<>=]{1,64}=[^\"'`\n<>]{5,})",
        Gate.PASSWORD,
    ),
    "label_line": (
        r"(?i:^[^\n=]{0,120}\b(?:secret|token|api[ _-]?key|password"
        r"|passphrase)(?:[ \t]*:?|[^\n=]{0,80}:))[ \t]*\r?\n(?:"
        r"[ \t]*\r?\n)?[ \t]{0,24}(?P<secret>[A-Za-z0-9+/_=.-]{20,128})[ \t]*\r?$",
        Gate.RANDOM,
    ),
    "initial_password": (
        r"(?i:\b(?:initial|temporary|default|generated|root|admin|bootstrap|one-time)\b[^\n]{0,30}?\b(?P<name>password)"
        r"\b[^\n]{0,40}?(?:\bis|\bto|:|=)\s{1,3})[\"'`]?(?P<secret>[^\s\"'`,;]{6,})",
        Gate.NAMED_BARE,
    ),
    "encrypted": (r"\bENC[\[(](?P<secret>[^\])\n]{16,})", Gate.NONE),
    "travis": (r"\bsecure[\"']?:[ \t]{0,3}[\"']?(?P<secret>[A-Za-z0-9+/=\\]{40,})", Gate.RANDOM),
    "curl_user": (
        r"\bcurl\b(?:[^\n]|\\\r?\n)*?\s(?:-u|--user|-U|--proxy-user)[ =]{0,2}[\"']?(?P<secret_user>[^\s:\"'"
        r"]{0,64}):(?P<secret>[^\s\"']{3,})",
        Gate.PASSWORD,
    ),
    "netrc": (
        r"\b(?:machine\s+\S{1,128}|default)\s+login\s+(?P<secret_user>\S{1,128})\s+password\s+(?P<secret>\S{3,})",
        Gate.PASSWORD,
    ),
    "sql": (
        r"(?i:\b(?:(?:identified\s+(?:with\s+\S{1,40}\s+)?(?:by|as)(?:\s+values)?|(?:encrypted\s+)?password)\s{1,3}"
        r"|password\s+for\s+\S{1,64}\s*=\s{0,3}|(?:set_)?password\(\s{0,3}))[\"'](?P<secret>[^\"'\n]{3,})[\"']",
        Gate.PASSWORD,
    ),
    "crypt": (
        r"(?P<secret>\$(?:1|2[abxy]?|5|6|7|8|9|y|gy|md5|sha1|apr1|sm3|argon2(?:id|i|d)|pbkdf2(?:-s"
        r"ha\d+)?|scrypt|bcrypt-sha256|P|H|S)\$[A-Za-z0-9./$+=,_-]{16,})",
        Gate.NONE,
    ),
    "named_hash": (
        r"(?P<secret>\b(?:pbkdf2_sha\d+|bcrypt(?:_sha256)?|argon2|scrypt|sha1|md5)\$[\d$a-zA-Z./+=_,-]{24,})",
        Gate.NONE,
    ),
    "ldap_hash": (
        r"(?P<secret>\{(?i:SSHA|SHA|SMD5|MD5|CRYPT|SSHA256|SSHA512)\}[A-Za-z0-9+/=.$]{16,})",
        Gate.NONE,
    ),
    "ntlm": (r"\b[\w.\\$-]{1,64}:\d{1,10}:(?P<secret>[0-9a-fA-F]{32}:[0-9a-fA-F]{32}):::", Gate.NONE),
    "connection_string": (
        r"(?i:[;?&\"'\s](?P<name>password|pwd|accountkey|sharedaccesskey|sharedaccesssignature|sharedsec"
        r"retvalue|accesskey|account key))\s{0,2}=\s{0,2}(?P<bare>[^;\s\"'&<>()\[\]]{4,})(?:[;\s\"'&<>]|$)",
        Gate.CREDENTIAL,
    ),
    "login_pair": (
        rf"(?i:\b(?:user(?:name|[_ -]?id)?|login|uid|account[_ ]?(?:name|id)?|email|sharedaccesskeyname|"
        rf"{_PAIRED}))[\"']?{_IS}[\"']?(?P<secret_user>[\w.@+\\-]{{2,64}})[\"']?"
        rf"[,;&\s/$]{{1,4}}[\"']{{0,2}}(?i:(?P<name>pass|pw|pwd|password|passwd|passphrase|accountkey|shared"
        rf"accesskey|secret|token))[\"']?{_EQUALS}{_SECOND}",
        Gate.CREDENTIAL,
    ),
    "login_lines": (
        rf"(?i:(?:user(?:[_-]?name)?|login|account(?:[_-]?name)?))[\"']?{_IS}[\"']?(?P<secret_user>"
        rf"[\w.@+\\-]{{2,64}})[\"']?[,;]?[ \t]{{0,4}}(?:(?:#|//)[^\n]{{0,80}})?\r?\n"
        rf"(?:[ \t]{{0,24}}(?:#|//)[^\n]{{0,80}}\n)?[ \t]{{0,24}}[\"'$]?(?i:[\w.-]{{0,24}}(?P<name>pass|p"
        rf"w|pwd|password|passwd|passphrase|secret|token))[\"']?{_IS}{_SECOND}",
        Gate.CREDENTIAL,
    ),
    "secret_key_hex": (
        r"(?i:private[_ -]?key|priv[_ -]?key|secret[_ -]?key|seed|mnemonic key)[^\n]{0,24}?\b(?P<s"
        r"ecret>(?:0x)?[0-9a-fA-F]{64})\b",
        Gate.NONE,
    ),
    "wif": (
        r"(?i:\b(?:private|priv|wif|bitcoin|btc|wallet|secret)\b)[^\n]{0,40}?\b(?P<secret>[5KLc][1"
        r"-9A-HJ-NP-Za-km-z]{50,51})\b",
        Gate.NONE,
    ),
    "mnemonic": (
        r"(?i:(?:mnemonic|seed[ _-]?phrase|recovery[ _-]?phrase|secret[ _-]?phrase)\b)[^\n]{0,12"
        r"}?[\"':=\s]{1,4}(?P<secret>(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})\b",
        Gate.NONE,
    ),
    "wireguard": (r"(?i:\b(?:private|preshared)key)\s{0,4}=\s{0,4}(?P<secret>[A-Za-z0-9+/]{43}=)", Gate.NONE),
    "ssh_password": (r"\bsshpass\s+-p\s{0,2}[\"']?(?P<secret>[^\s\"']{3,})", Gate.PASSWORD),
    "cli_password": (
        r"\b(?:mysql|mysqldump|mariadb|mysqladmin)\b[^\n|;]{0,128}?\s-p(?P<secret>[^\s\"'-][^\s\"']{3,128})",
        Gate.PASSWORD,
    ),
    "login_command": (
        r"\b(?:docker|podman|helm|oc|az|npm|buildah|skopeo)\b[^\n|;]{0,40}?\blogin\b[^\n|;]{0,160}"
        r"?\s(?:-p|--password|--token)[ =][\"']?(?P<secret>[^\s\"'$<-][^\s\"']{3,})",
        Gate.PASSWORD,
    ),
    "docker_auth": (r"[\"']auth[\"']\s{0,3}:\s{0,3}[\"'](?P<secret>[A-Za-z0-9+/=]{12,})[\"']", Gate.NONE),
    "npmrc": (
        r":_(?:authToken|auth|password)\s{0,3}=\s{0,3}[\"']?(?P<secret>[^\s\"'$]{8,})",
        Gate.PASSWORD,
    ),
    "pgpass": (
        r"^[^\s:#]{1,128}:(?:\d{2,5}|\*):[^\s:]{1,64}:[^\s:]{1,64}:(?P<secret>[^\s:]{3,128})$",
        Gate.PASSWORD,
    ),
    "basic_credentials": (
        r"(?i:\bcredentials?\b)[\"']?\s{0,3}[:=]\s{0,3}[\"']?[\w.@-]{1,64}:(?P<secret>[^\s\"'/]{4,128})",
        Gate.PASSWORD,
    ),
    "putty_mac": (r"^Private-MAC:\s(?P<secret>[0-9a-f]{40,64})", Gate.NONE),
    "jwk": (
        r"[\"'](?:d|p|q|dp|dq|qi|k)[\"']\s{0,3}:\s{0,3}[\"'](?P<secret>[A-Za-z0-9_-]{32,})[\"']",
        Gate.RANDOM,
    ),
}

_PAIR_OPENS: Final = (
    r"^[ \t]*(?:export[ \t]+)?[\"'$]?[\w.]*(?i:user(?:[_-]?name)?|login|account(?:[_-]?name)?|"
    r"machine)[\"']?(?:[ \t]*[=:][ \t]*|[ \t]+)"
    r"[\"']?[\w.@+\\/-]+[\"']?[,;]?[ \t]*(?:(?:#|//)[^\n]*)?\r?$"
)
"""A user name on a line of its own: half of a credential when the other half follows."""

_BLOCKS: Final = {
    "ansible_vault": r"\$ANSIBLE_VAULT;[\d.]{3,5};AES\d{3}[^\n]{0,80}(?P<secret>)$",
    "pem": r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?P<secret>[^\n]*?)(?:-----END|$)",
    "ssh2": r"---- BEGIN SSH2 [A-Z0-9 ]{0,40}PRIVATE KEY ----(?P<secret>[^\n]*?)(?:---- END|$)",
    "putty": r"^Private-Lines: \d{1,4}\r?(?P<secret>)$",
    "openvpn": r"-----BEGIN OpenVPN Static key V1-----(?P<secret>[^\n]*?)(?:-----END|$)",
    "certificate_key": r"<(?:rsa-?key|RSAKeyValue)>(?P<secret>[^\n]{16,}?)(?:</|$)",
}
"""The first lines of keys; what stands on the same line up to the last line's marker is captured."""

_FIRST_LINES: Final = {
    "ansible_vault": r"\$ANSIBLE_VAULT;",
    "pem": r"PRIVATE KEY(?: BLOCK)?-----",
    "ssh2": r"PRIVATE KEY ----",
    "putty": r"^Private-Lines: \d",
    "openvpn": r"OpenVPN Static key V1-----",
    "certificate_key": r"<(?:rsa-?key|RSAKeyValue)>",
}
# Screens count nothing: what may be there or not is cheapest without end.
_NAME: Final = rf"(?i:{_STRONG})[\w.\[\]\\\"'`\)-]*[ \t]*"
_NO_VALUE: Final = r"\s\"'`,;&<>(){}\[\]|\\"
_OPENED: Final = r"(?:[\w.]*\()?[\w@$]*\\*[\"'`]"
# After the name: a quote; or something that is neither a word of a sentence nor a number; or the end of a tag; or a
# second name that tells of a value. After a name in capitals: anything.
_TOLD: Final = (
    rf"{_NAME}(?:(?:[=:|?>]|->|(?i:is|was|to)[ \t])[=>|]*[ \t]*{_OPENED}|,[ \t]*{_OPENED}"
    rf"|(?:[=:|>]|->|\?=)[=>|]*[ \t]*(?:[A-Za-z][a-z.:!?]*[^a-z.:!?{_NO_VALUE}]|[0-9][0-9.,:%]*[^0-9.,:%{_NO_VALUE}]"
    rf"|[+_~^!/-][^{_NO_VALUE}]{{4}})|>|[,;/{{\s]\s*[\"']?(?i:val|default|type))"
    rf"|(?:PASS|PWD)[A-Z0-9_]*[ \t]*[=:][ \t]*[^{_NO_VALUE}]{{5}}"
)
_SAID: Final = (
    r"pass(?:word|wd|phrase|code)|pwd|secret|token|key|credential|auth|bearer|api[_. -]?(?:code|hash|pass)"
)
_SCREENS: Final = {
    **dict.fromkeys(
        ("assigned", "listed", "pair", "attribute", "variable", "element", "property_list"), _TOLD
    ),
    "login_pair": rf"(?i:user|login|uid|account|email|keyname|{_PAIRED})[^\n]*(?i:pass(?:word|wd|phrase)?|pwd"
    rf"?|accountkey|accesskey|secret|token)[\"']?[ \t]*[=: ]",
    "connection_string": r"(?i:[;?&\"'\s](?:password|pwd|accountkey|sharedaccess\w+|sharedsecretvalue|accesskey|accoun"
    r"t key))[ \t]*=[ \t]*[^;\s\"'&<>\[\]]{4}",
    "cli_password": r"\b(?:mysql|mysqldump|mariadb|mysqladmin)\b[^\n]*\s-p[^\s\"'-]",
    "bearer": r"(?i:\b(?:bearer|ssws|bot|basic))\s[ \t]*[A-Za-z0-9_.+/~=-]{16}",
    "basic_credentials": r"(?i:credentials?)[\"']?[ \t]*[:=][ \t]*[\"']?[\w.@-]+:[^\s\"'/]{4}",
    "url_password": r"://[^\s/?#\"'<>`]*:[^\s/?#\"'<>`]*@",
    "driver_url": r"@(?:tcp|unix)\(",
    "authorization": r"(?i:authorization)[\"'\]]*\s*[:=,]",
    "authorization_other": r"(?i:authorization)[\"'\]]*\s*[:=,]",
    "initial_password": r"(?i:(?:initial|temporary|default|generated|root|admin|bootstrap|one-time)\b[^\n]*password)",
    "label_line": r"(?:(?i:secret|token|key|password|passphrase)[ \t]*|:)\r?\n\s*[A-Za-z0-9+/_=.-]{20}",
    "weak": rf"(?i:{_WEAK}){_WEAK_TAIL}[\"'`\[\]\(\) \t=:,>\\]+[A-Za-z0-9+/_.~-]{{16}}",
    "loose": rf"(?i:{_SAID})(?:[^\n]*[^\w\n+~-])[A-Za-z0-9_+~-]{{20}}",
    "flag": rf"-(?i:(?:[a-z]+-)?(?:{_SAID})[a-z-]*"
    r"|[a-z]*(?:word|wd|phrase|code|secret|token|key|credentials?|pass|hash))[ \t]",
    "login_lines": _PAIR_OPENS,
    "curl_user": r"\s(?:-u|--user|-U|--proxy-user)[ =]*[\"']?[^\s:\"']*:[^\s\"']{3}",
    "netrc": r"(?i:login\s{1,4}[^\s]{1,128}\s{1,8}password\s)",
    "pgpass": r":(?:543\d|3306|\*):[^\s:]{1,64}:[^\s:]{1,64}:",
}
_VALUE_WORDS: Final = (b"val", b"default")
_NEEDS: Final = {
    "listed": (b"',", b'",', b"`,"),
    "pair": _VALUE_WORDS,
    "attribute": _VALUE_WORDS,
    "variable": _VALUE_WORDS,
    "element": (b">",),
    "property_list": (b"<key>",),
    "authorization_other": (b"authorization",),
}
"""Rules that share a screen are told apart by these."""
