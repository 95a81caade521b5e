"""Secrets that are told by the command, the call or the directive that they are given to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from recoup.redaction.patterns.rule import Gate, Rule


def command_rules() -> Iterator[Rule]:
    for name, (opening, arguments) in {**_CALLS, **_COMMANDS}.items():
        screen = _SCREENS.get(name) or rf"(?i:{opening}){_LATER.get(name, '')}"
        yield Rule(f"recoup.command.{name}", rf"(?i:{opening}){arguments}", Gate.LITERAL, screen)
    for name, (pattern, screen) in _DIRECTIVES.items():
        gate = Gate.NAMED_BARE if "(?P<name>" in pattern else Gate.LITERAL
        yield Rule(f"recoup.directive.{name}", pattern, gate, screen)


_ARGUMENT: Final = r"(?:[\"'][^\"'\n]{0,200}[\"']|[\w$.>:\[\]\\-]{1,64})"
_USER: Final = r"(?:[\"'](?P<secret_user>[^\"'\n]{1,64})[\"']|[\w$.>:\[\]\\-]{1,64})"
_NEXT: Final = r"\s{0,8},\s{0,16}"
_QUOTED: Final = r"[\"'](?P<secret>[^\"'\n]{3,200})[\"']"
_SECOND: Final = rf"\s{{0,16}}{_USER}{_NEXT}{_QUOTED}"
_THIRD: Final = rf"\s{{0,16}}{_ARGUMENT}{_NEXT}{_USER}{_NEXT}{_QUOTED}"

_CALLS: Final = {
    "third_argument": (
        r"(?:\b(?:mysqli?_p?connect|mysqli_real_connect|pg_p?connect|odbc_p?connect|mssql_p?connect|db2_p?connect"
        r"|maxdb_connect|ifx_p?connect|fbird_connect|ibase_connect|sybase_connect|new\s{1,3}\\?(?:mysqli|pdo)|imap_open"
        r"|ftp_login|ldap_bind|ssh2_auth_password|drivermanager\.getconnection|sequel\.connect|pymysql\.connect"
        r"|mysqldb\.connect)|\bdbi(?:->|\.)connect)\s{0,2}\(",
        _THIRD,
    ),
    "second_argument": (
        r"(?:\b(?:oci_p?connect|oci_new_connect|networkcredential|usernamepasswordcredentials?|passwordauthentication"
        r"|httpbasicauth|httpdigestauth|httpproxyauth|aiohttp\.basicauth|basicauth|setbasicauth|credentials\.basic"
        r"|basic_auth|set_basic_auth|add_credentials|username_pw_set"
        r"|plainauthprovider|clientsecretcredential|basicawscredentials|awsbasiccredentials\.create)\]?(?:::new)?"
        r"|\bauth\s{0,3}=|[.:>]login|[.:>]auth|pscredential\]?(?:::new)?)\s{0,2}\(",
        _SECOND,
    ),
    "secure_string": (
        r"convertto-securestring\b",
        rf"(?:\s{{1,3}}-(?i:string|asplaintext|force)){{0,3}}\s{{1,3}}{_QUOTED}",
    ),
}
"""By how the call is opened: which of its arguments is a password. The screen is the opening alone."""

_VALUE: Final = (
    r"(?:\"(?P<quoted>[^\"\n]{3,})\"|'(?P<ticked>[^'\n]{3,})'|(?P<secret>[^\s\"'|;<>&-][^\s\"'|;<>&]{2,}))"
)
_OF_USER: Final = (
    r"(?:[^\n|;]{0,120}?\s(?i:--?user(?:name)?[ =:]{1,2}|-u[ ]{0,2})"
    r"[\"']?(?P<secret_user>[^\s\"'|;]{1,64})[\"']?)?"
)
_WITH: Final = rf"{_OF_USER}[^\n|;]{{0,200}}?\s"

_COMMANDS: Final = {
    "flag_p": (
        r"\b(?:psexec(?:64)?|mongo(?:sh|dump|restore|export|import)?|evil-winrm|crackmapexec|netexec|hydra|rdesktop|cqlsh"
        r"|connect-viserver|vncdo|clickhouse-client)(?:\.exe)?\b",
        rf"{_WITH}(?i:-p|--?pass(?:word)?|-pwd)[ =:]{{1,3}}{_VALUE}",
    ),
    "flag_capital_p": (
        r"\b(?:sqlcmd|bcp|osql|isql|ipmitool|mosquitto_(?:pub|sub|rr)|zip|unzip)(?:\.exe)?\b",
        rf"{_WITH}-P[ ]{{0,3}}{_VALUE}",
    ),
    "flag_w": (
        r"\bldap(?:search|add|modify|delete|passwd|whoami|compare|modrdn|exop)\b",
        rf"[^\n|;]{{0,200}}?\s-w[ ]{{0,3}}{_VALUE}",
    ),
    "flag_a": (r"\b(?:redis-cli|keydb-cli|valkey-cli)\b", rf"[^\n|;]{{0,200}}?\s-a[ ]{{1,3}}{_VALUE}"),
    "httpie": (
        r"\b(?:https?|httpie|xh)\b",
        r"[^\n|;]{0,200}?\s(?:-a|--auth)[ =]{1,3}[\"']?(?P<secret_user>[^\s:\"']{1,64}):(?P<secret>[^\s\"']{3,})",
    ),
    "windows_share": (
        r"\bnet(?:\.exe)?\s{1,3}use\b",
        r"[^\n|]{0,200}?/user:[\"']?(?P<secret_user>[^\s\"']{1,80})[\"']?\s{1,3}(?P<secret>[^\s/*\"'|<>][^\s\"'|<>]{2,})",
    ),
    "windows_share_first": (
        r"\bnet(?:\.exe)?\s{1,3}use\b",
        r"\s{1,3}(?:\S{1,3}\s{1,3})?\\\\\S{1,120}\s{1,3}(?P<secret>[^\s/*\"'|<>][^\s\"'|<>]{2,})\s{1,3}/user:",
    ),
    "windows_user": (
        r"\bnet(?:\.exe)?\s{1,3}user\s",
        r"\s{0,3}[\"']?[\w.\\-]{1,64}[\"']?\s{1,3}[\"']?(?P<secret>[^\s/*\"'|<>][^\s\"'|<>]{2,})[\"']?(?:\s{1,3}/|\s*$)",
    ),
    "windows_task": (
        r"\bschtasks(?:\.exe)?\b",
        rf"[^\n|]{{0,400}}?\s/(?i:rp|p)\s{{1,3}}{_VALUE}",
    ),
    "windows_remote": (
        r"\b(?:xfreerdp|wfreerdp|wmic|cmdkey|runas)(?:\.exe)?\b",
        r"[^\n|]{0,200}?/(?i:p|pass|password):[\"']?(?P<secret>[^\s\"'|<>]{3,})",
    ),
    "openssl": (r"-(?:pass|passin|passout)[ =]{1,3}[\"']?pass:", r"(?P<secret>[^\s\"']{3,})"),
    "store_pass": (
        r"-(?:storepass|keypass|srcstorepass|deststorepass|destkeypass|srckeypass|ks-pass|key-pass|dname-pass)[ =]",
        rf"{{0,3}}(?:pass:)?{_VALUE}",
    ),
    "htpasswd": (
        r"\bhtpasswd\s",
        r"(?:\s{0,3}-[acdmspvDB25C\d]{1,8})*\s{0,3}-[a-zA-Z]{0,6}b[a-zA-Z]{0,6}(?:\s{1,3}-\S{1,8})*\s{1,3}(?:[\w./-]{1,128}"
        r"\s{1,3})?[\"']?(?P<secret_user>[\w.@-]{1,64})[\"']?\s{1,3}[\"']?(?P<secret>[^\s\"'|;>-][^\s\"'|;>]{2,})",
    ),
    "user_percent": (
        r"\b(?:smbclient|winexe|rpcclient|smbget|smbmap|wmiexec|nmblookup|net\s+rpc)\b",
        r"[^\n|;]{0,200}?\s(?:-U|--user)[ =]{0,3}[\"']?(?P<secret_user>[^\s%\"']{1,64})%(?P<secret>[^\s\"']{3,})",
    ),
    "lftp": (
        r"\blftp\b",
        r"[^\n|;]{0,120}?\s-u[ ]{0,3}[\"']?(?P<secret_user>[^\s,\"']{1,64}),(?P<secret>[^\s\"']{3,})",
    ),
    "sqlplus": (
        r"\b(?:sqlplus|sqlldr|expdp|impdp|rman\s+target|sqlcl)\s",
        r"(?:\s{0,3}-\w{1,4})*\s{0,3}[\"']?(?P<secret_user>[\w$#.]{1,64})/(?P<secret>[^\s/\"'@]{3,})(?:@|[\s\"']|$)",
    ),
    "archive": (r"\b7z[ar]?\s{1,3}[a-z]{1,2}\b", rf"[^\n|;]{{0,120}}?\s-p{_VALUE}"),
    "rabbitmq": (
        r"\brabbitmqctl\s{1,3}(?:-\S{1,40}\s{1,3}){0,3}(?:add_user|change_password|authenticate_user)\s",
        r"\s{0,3}(?P<secret_user>\S{1,64})\s{1,3}[\"']?(?P<secret>[^\s\"'|;]{3,})",
    ),
    "chpasswd": (
        r"\becho\s",
        r"[^\n|]{0,40}?[\"']?(?P<secret_user>[\w.-]{1,32}):(?P<secret>[^\s\"'|:]{3,64})[\"']?\s{0,3}\|\s{0,3}(?:sudo\s{1,3})?chpa"
        r"sswd\b",
    ),
    "piped": (
        r"\becho\s",
        r"(?:-n\s{1,3})?[\"']?(?P<secret>[^\s\"'|$]{3,64})[\"']?\s{0,3}\|\s{0,3}(?:sudo\s{1,3}(?:-S|--stdin)|(?:sudo\s{1,3})?passw"
        r"d\s{1,3}--stdin|docker\s{1,3}login|gh\s{1,3}auth|kinit|cryptsetup)\b",
    ),
    "useradd": (r"\b(?:useradd|usermod)\b", rf"[^\n|;]{{0,160}}?\s(?:-p|--password)[ =]{{1,3}}{_VALUE}"),
}

_LATER: Final = {
    "flag_p": r"[^\n]*\s(?i:-p|--?pass(?:word)?|-pwd)[ =:]",
    "flag_capital_p": r"[^\n]*\s-P",
    "flag_w": r"[^\n]*\s-w",
    "flag_a": r"[^\n]*\s-a",
    "useradd": r"[^\n]*\s(?:-p|--password)[ =]",
    "windows_share": r"[^\n]*/(?i:user):",
    "windows_share_first": r"[^\n]*/(?i:user):",
    "windows_remote": r"[^\n]*/(?i:p|pass|password):",
    "windows_task": r"[^\n]*\s/(?i:rp|p)\s",
}
"""What has to follow on the line before it is worth a look."""
_SCREENS: Final = {
    "archive": r"\b7z[ar]?[ \t]+[a-z]{1,2}[ \t]",
    "rabbitmq": r"(?i:rabbitmqctl[ \t][^\n]*(?:add_user|change_password|authenticate_user)[ \t])",
    "httpie": r"\s(?:-a|--auth)[ =]+[\"']?[^\s:\"']+:[^\s\"']{3}",
    "chpasswd": r"\|[ \t]*(?:sudo[ \t]+)?chpasswd",
    "piped": r"\|[ \t]*(?:sudo[ \t]+(?:-S|--stdin)|(?:sudo[ \t]+)?passwd[ \t]+--stdin"
    r"|docker[ \t]+login|gh[ \t]+auth|kinit|"
    r"cryptsetup)",
}

_TYPED: Final = r"(?:[\"']?(?:encrypted|level\s{1,2}\d{1,2})[\"']?\s{1,3})?(?:[0-9]\s{1,3})?"
_WORD: Final = r"(?P<secret>[^\s\"'<>;|]{4,})"

_DIRECTIVES: Final = {
    "enable": (
        rf"(?i:^[ \t]{{0,8}}enable\s{{1,3}}(?:password|secret)\s{{1,3}}){_TYPED}{_WORD}[ \t]*\r?$",
        r"(?i:^[ \t]*enable[ \t]+(?:password|secret)[ \t])",
    ),
    "router_user": (
        r"(?i:^[ \t]{0,8}username\s{1,3}(?P<secret_user>\S{1,64})\s{1,3}"
        r"(?:(?:privilege|role|level)\s{1,3}\S{1,24}\s{1,3}){0,2}"
        rf"(?:password|secret)\s{{1,3}}){_TYPED}{_WORD}",
        r"(?i:^[ \t]*username[ \t]+[^\s]+[ \t][^\n]*(?:password|secret)[ \t])",
    ),
    "community": (
        r"(?i:\bsnmp-server\s{1,3}(?:community|host\s{1,3}\S{1,64}(?:\s{1,3}version\s{1,3}\S{1,4})?)\s{1,3})"
        rf"{_TYPED}{_WORD}",
        r"(?i:snmp-server[ \t]+(?:community|host)[ \t])",
    ),
    "community_short": (
        r"\bsnmp(?:walk|get|set|bulkwalk|bulkget|table|trap|next)\b[^\n|;]{0,120}?\s-c[ ]{0,3}"
        r"[\"']?(?P<secret>[^\s\"'-][^\s\"']{3,})",
        r"snmp(?:walk|get|set|bulkwalk|bulkget|table|trap|next)[^\n]*\s-c",
    ),
    "router_key": (
        r"(?i:\b(?P<name>key|key-string|password|secret|authentication-key|md5|pre-shared-key|wpa-psk\s{1,3}ascii)"
        r"\s{1,3})[0-9]\s{1,3}(?P<secret>[^\s\"'<>;|:=(){}]{6,})[ \t]*\r?$",
        r"(?i:key|key-string|password|secret|md5|ascii)[ \t]+[0-9][ \t]+[^\s\"'<>;|:=(){}]",
    ),
    "server_key": (
        r"(?i:\b(?:(?:tacacs|radius)-server|isakmp|ospf\s{1,3}\S{1,24}|neighbor\s{1,3}\S{1,48})\s(?:[^\n]{0,60}?\s)?"
        rf"(?:key|password|authentication-key)\s{{1,3}}){_TYPED}{_WORD}",
        r"(?i:(?:tacacs-server|radius-server|isakmp|ospf|neighbor)[ \t][^\n]*(?:key|password)[ \t])",
    ),
    "store": (
        r"(?i:^[ \t]{0,8}(?:requirepass|masterauth|sentinel\s{1,3}auth-pass\s{1,3}\S{1,64})\s{1,3})"
        r"[\"']?(?P<secret>[^\s\"']{3,})",
        r"(?i:^[ \t]*(?:requirepass|masterauth|sentinel[ \t]+auth-pass)[ \t])",
    ),
    "mail_client": (
        r"(?i:^[ \t]{0,8}(?:smtp_sasl_password|relay_password|auth_pass|passwd|password))\s{1,3}"
        r"[\"'](?P<secret>[^\s\"']{3,})[\"']",
        r"(?i:^[ \t]*(?:smtp_sasl_password|relay_password|auth_pass|passwd|password))[ \t]+[\"'][^\s]",
    ),
}
"""Configuration where a space stands between the name and the secret."""
