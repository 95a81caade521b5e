"""Tokens that can be told by themselves: the formats their providers document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from recoup.redaction.patterns.rewriting import screen_of
from recoup.redaction.patterns.rule import Gate, Rule


def provider_rules() -> Iterator[Rule]:
    for name, tokens in _TOKENS.items():
        yield Rule(f"recoup.{name}", _beginning(tokens), screen=_beginning(map(screen_of, tokens)))
    for name, (near, value) in _NEAR.items():
        yield Rule(f"recoup.near.{name}", rf"(?i:{near}){_NEAR_BY}({value})", Gate.RANDOM)
    near = "|".join(_PROVIDERS)
    yield Rule(
        "recoup.near.provider",
        rf"(?i:{near}){_NEAR_BY}([0-9a-zA-Z]{{32,64}})",
        Gate.RANDOM,
        rf"(?i:{near})[\w .\"'\]-]*[=:,]",
    )
    yield Rule(
        "recoup.near.provider_uuid",
        rf"(?P<name>(?i:{'|'.join(_UUID_PROVIDERS)})[\w.-]{{0,24}})[\"'\]]{{0,2}}[ \t]{{0,3}}(?:[=:,]{{1,2}}>?|\b)"
        rf"(?:[ \t]{{0,3}}|[ \t](?i:api|token|key|secret)[ \t:=]{{1,3}})[\"'\[]{{0,2}}(?P<secret>(?i:{_UUID}))\b",
        Gate.NAMED_UUID,
        rf"(?i:{'|'.join(_UUID_PROVIDERS)})[\w .\"'\]=:,>-]*[0-9a-fA-F]{{8}}-",
    )
    for name, (pattern, gate) in _OTHERS.items():
        yield Rule(f"recoup.{name}", pattern, gate, _SCREENS.get(name, ""))


def _beginning(tokens: Iterable[str]) -> str:
    return rf"(?:^|[^A-Za-z0-9])({'|'.join(tokens)})"


_UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_BASE64: Final = "[A-Za-z0-9+/]"
_WORD: Final = r"[\w-]"

_NEAR_BY: Final = r"[\w .-]{0,24}[\"'\]]{0,2}\s{0,3}[=:,]{1,2}>?\s{0,3}[\"'\[]{0,2}"

_TOKENS: Final = {
    "github": ("gh[opsur]_[A-Za-z0-9]{30,}", "github_pat_[A-Za-z0-9_]{22,}"),
    "gitlab": (
        rf"gl(?:pat|o?at|dt|rtr?|cbt|ptt|ft|imt|agent|soat|ffct|oas|wt)-{_WORD}{{20,}}",
        rf"GR1348941{_WORD}{{20,}}",
    ),
    "slack": (r"xox[a-z]-(?:\d-)?[A-Za-z0-9-]{10,}", r"xapp-\d-[A-Za-z0-9-]{20,}", rf"xwfp-{_WORD}{{10,}}"),
    "aws": (
        "(?:AKIA|ASIA|ABIA|ACCA|LKIA|LSIA|A3T[A-Z0-9])[A-Z0-9]{16}",
        f"ABSK{_BASE64}{{60,}}={{0,2}}",
        f"bedrock-api-key-{_BASE64}{{20,}}={{0,2}}",
    ),
    "aws_mws": (rf"amzn\.mws\.{_UUID}",),
    "google": (
        rf"AIza{_WORD}{{35}}",
        rf"GOCSPX-{_WORD}{{20,}}",
        r"ya29\.[\w.-]{20,}",
        rf"1//0{_WORD}{{30,}}",
        rf"AQ\.Ab{_WORD}{{40,}}",
        "GOOG(?:1E)?[A-Z0-9]{20,61}",
    ),
    "firebase": (rf"AAAA{_WORD}{{7}}:APA91b{_WORD}{{100,}}",),
    "azure": (
        r"[\w~.-]{3}[78]Q~[\w~.-]{31,34}",
        rf"{_BASE64}{{76}}(?:APIM|ACDb|\+(?:ABa|AMC|ASt)){_BASE64}{{6}}={{0,2}}",
        rf"{_BASE64}{{33}}(?:AIoT|\+(?:ASb|AEh|ARm)){_BASE64}{{6}}=",
        r"[A-Za-z0-9]{42}\+ACR[A-Za-z0-9]{6}",
        "[A-Za-z0-9]{52}AzSe[A-Za-z0-9]{6}",
        rf"{_WORD}{{44}}AzFu{_WORD}{{6}}={{0,2}}",
    ),
    "azure_devops": ("[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}",),
    # Credentials for a time: their beginning is the same for all.
    "aws_session": (rf"(?:IQoJb3JpZ2lu|FwoGZXIvYXdz|FQoGZXIvYXdz){_BASE64}{{80,}}={{0,2}}",),
    "wandb": (r"wandb_v1_\w{40,}",),
    "depot": ("depot_(?:project|org)_[A-Za-z0-9]{32,}",),
    "honeycomb": ("hcaik_[A-Za-z0-9]{40,}",),
    "chromatic": ("chpt_[0-9a-f]{12,}",),
    "tencent": ("AKID[A-Za-z0-9]{32}",),
    "infisical": (r"st\.[0-9a-f]{24}\.[0-9a-f]{32}\.[0-9a-f]{32}",),
    "stripe": ("(?:sk|rk|pk)_(?:live|test|prod)_[A-Za-z0-9]{10,}", f"whsec_{_BASE64}{{24,}}={{0,2}}"),
    "npm": ("npm_[A-Za-z0-9]{30,}",),
    "pypi": (rf"pypi-AgE{_WORD}{{50,}}",),
    "docker": (rf"dckr_(?:pat|oat)_{_WORD}{{20,}}",),
    "digitalocean": ("do[opr]_v1_[0-9a-f]{40,}",),
    "databricks": (r"d(?:api|kea|ose|sapi)[0-9a-f]{32}(?:-\d)?",),
    "huggingface": ("hf_[A-Za-z]{30,}", "api_org_[A-Za-z]{30,}"),
    "openai": (rf"sk-[A-Za-z0-9]{{2,12}}-{_WORD}{{20,}}", "sk-[A-Za-z0-9]{20,}"),
    "anthropic": (rf"sk-ant-{_WORD}{{20,}}",),
    "models": (
        "gsk_[A-Za-z0-9]{40,}",
        "xai-[A-Za-z0-9]{60,}",
        "pplx-[A-Za-z0-9]{30,}",
        "r8_[A-Za-z0-9]{30,}",
        rf"tvly-{_WORD}{{20,}}",
        "jina_[A-Za-z0-9]{40,}",
        "fw_[A-Za-z0-9]{20,}",
        r"lsv2_[a-z]{2}_\w{20,}",
        "fc-[0-9a-f]{32}",
        "sk-or-[A-Za-z0-9-]{30,}",
        rf"(?:sk|pk)-lf-{_UUID}",
        "nvapi-[A-Za-z0-9_-]{40,}",
    ),
    "twilio": ("(?:SK|AC)[0-9a-f]{32}",),
    "sendgrid": (rf"SG\.{_WORD}{{16,32}}\.{_WORD}{{16,64}}",),
    "mail": (
        "key-[0-9a-f]{32}",
        r"[0-9a-f]{32}-us\d{1,2}",
        "[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}",
        "xkeysib-[0-9a-f]{40,}-[A-Za-z0-9]{10,}",
        "xsmtpsib-[0-9a-f]{40,}-[A-Za-z0-9]{10,}",
        "re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}",
    ),
    "telegram": (rf"\d{{8,10}}:AA{_WORD}{{32,33}}",),
    "discord": (rf"[MNO][A-Za-z\d_-]{{23,27}}\.{_WORD}{{6}}\.{_WORD}{{27,40}}",),
    "shopify": ("shp(?:at|ca|pa|ss|tka|ua)_[0-9a-fA-F]{32}",),
    "square": (rf"sq0[a-z]{{3}}-{_WORD}{{22,}}", rf"EAAA[lE]{_WORD}{{56,}}"),
    "heroku": (rf"HRKU-{_WORD}{{36,}}",),
    "linear": ("lin_(?:api|oauth|wh)_[A-Za-z0-9]{32,}",),
    "notion": ("secret_[A-Za-z0-9]{40,}", "ntn_[A-Za-z0-9]{40,}"),
    "atlassian": (
        r"AT[A-Z]T[A-Z]3[\w=-]{50,}",
        rf"ATBB{_WORD}{{28,}}",
        "ATTA[0-9a-f]{60,}",
        rf"BBDC-{_BASE64}{{40,}}",
    ),
    "hashicorp": (rf"hv[sbr]\.{_WORD}{{20,}}", rf"[A-Za-z0-9]{{14}}\.atlasv1\.{_WORD}{{60,}}"),
    "grafana": (rf"eyJrIjoi{_BASE64}{{40,}}={{0,2}}", "gl(?:c|sa)_[A-Za-z0-9+/_=]{32,}"),
    "sentry": ("sntry[a-z]_[A-Za-z0-9+/_=]{40,}",),
    "newrelic": ("NR(?:AA|AK|JS|II|RA|AL|IQ|BR)-[A-Za-z0-9_-]{16,}", "[0-9a-zA-Z]{36}NRAL"),
    "cloudflare": (r"v1\.0-[0-9a-f]{24}-[0-9a-f]{146}", r"cf(?:ut|at|k)_[A-Za-z0-9_-]{30,}"),
    "netlify": ("nfp_[A-Za-z0-9]{36}",),
    "vercel": ("vc[pciakr]_[A-Za-z0-9]{24,}", "vercel_blob_rw_[A-Za-z0-9_]{30,}"),
    "supabase": ("sbp_[0-9a-f]{40}", rf"sb_secret_{_WORD}{{20,}}"),
    "planetscale": (r"pscale_(?:tkn|oauth|pw)_[\w.=-]{32,}",),
    "neon": ("napi_[A-Za-z0-9]{40,}",),
    "age": ("(?i:AGE-SECRET-KEY-(?:PQ-)?1[A-Z0-9]{50,})", "(?i:AGE-PLUGIN-[A-Z0-9-]{4,20}1[A-Z0-9]{50,})"),
    "airtable": (r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}",),
    "builds": (
        r"CCIPAT_\w{20,}_[0-9a-f]{40}",
        "CCIPRJ_\\w{20,}_[0-9a-f]{40}",
        "bk[a-z]{2}_[0-9a-f]{40}",
        r"sq[apu]_[0-9a-f]{40}",
        "sgp_(?:[A-Za-z0-9]{16,}_)?[0-9a-f]{40}",
        "slk_[0-9a-f]{64}",
        "glpat-[A-Za-z0-9_.-]{20,}",
        "pul-[0-9a-f]{40}",
        rf"hawk\.{_WORD}{{20}}\.{_WORD}{{20}}",
        "cio[A-Za-z0-9]{32}",
        "oy2[a-z0-9]{43}",
        "rubygems_[0-9a-f]{48}",
        r"CLOJARS_[0-9a-f]{60}",
        "dd[op]_[A-Za-z0-9]{36}",
        r"dp\.[a-z]{2,5}\.[A-Za-z0-9._-]{40,}",
        "ico-[A-Za-z0-9]{32}",
        r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}",
        "reftkn:[^\\s]{20,}",
        "AKC[a-zA-Z0-9]{50,}",
        "cmVmdGtu[a-zA-Z0-9]{50,}",
        r"odt_[A-Za-z0-9]{40,}",
        r"pnu_[A-Za-z0-9]{36}",
        r"ops_eyJ[\w+/-]{80,}",
        "CODESEE-[0-9a-f]{30,}",
        r"snyk_[a-z]{3}\.\w{8}\.[\w-]{20,}",
    ),
    "onepassword": ("A3-[A-Z0-9]{6}-[A-Z0-9]{6}-[A-Z0-9]{5}(?:-[A-Z0-9]{5}){3}", "1PRK(?:-[A-Z0-9]{4}){13}"),
    "bitwarden": (rf"0\.{_UUID}\.[A-Za-z0-9]{{20,}}:{_BASE64}{{20,}}={{0,2}}",),
    "dropbox": (r"sl\.[A-Za-z0-9._-]{100,}", rf"[A-Za-z0-9]{{11}}AAAAAAAAAA{_WORD}{{43}}"),
    "dynatrace": (r"dt0[a-z]\d{2}\.[A-Z0-9]{8,24}\.[A-Z0-9]{64}",),
    "figma": (r"fig[dour]_[\w-]{30,}",),
    "fly": (r"FlyV1\s+fm\d?[a-z]?_[\w+/=,-]{50,}", r"fm\d_[A-Za-z0-9+/=_-]{60,}", "fo1_[A-Za-z0-9_-]{40,}"),
    "facebook": ("EAA[A-Za-z0-9]{40,}", "IGQV[A-Za-z0-9_-]{40,}"),
    "hubspot": (rf"pat-(?:na|eu|ap)\d-{_UUID}",),
    "launchdarkly": (rf"(?:sdk|api|mob|rel)-{_UUID}",),
    "mapbox": (rf"[skp]k\.eyJ{_WORD}{{40,}}\.{_WORD}{{20,}}", rf"tk\.eyJ{_WORD}{{40,}}\.{_WORD}{{20,}}"),
    "plaid": (
        rf"access-(?:sandbox|development|production)-{_UUID}",
        rf"link-(?:sandbox|development|production)-{_UUID}",
    ),
    "payments": (
        "FLWSECK(?:_TEST)?-[A-Za-z0-9-]{12,}",
        "EZ[AT]K[A-Za-z0-9]{50,}",
        "shippo_(?:live|test)_[0-9a-f]{40}",
        "rzp_(?:live|test)_[A-Za-z0-9]{14,}",
        r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}",
        "(?:live|test)_[A-Za-z0-9]{30}",
        r"duffel_(?:live|test)_[\w-]{40,}",
        "(?:api|prd|tst)_(?:live|test|key)_[A-Za-z0-9.]{20,}",
        "pi_[A-Za-z0-9]{24}_secret_[A-Za-z0-9]{24}",
        r"sk_(?:sandbox|live)_[0-9a-f]{40,}",
        r"(?:APP_USR|TEST)-\d{6,20}-\d{6}-[0-9a-f]{32}[\w-]*",
    ),
    "tailscale": ("tskey-[A-Za-z0-9-]{10,}",),
    "contentful": (rf"CFPAT-{_WORD}{{40,}}",),
    "readme": ("rdme_[a-z0-9]{60,}", r"tfp_[\w-]{40,}", r"frp_[A-Za-z0-9]{30,}", r"fio-u-[\w-]{60,}"),
    "adafruit": ("aio_[A-Za-z0-9]{28}",),
    "alibaba": ("LTAI[A-Za-z0-9]{12,24}",),
    "yandex": (
        r"t1\.[A-Z0-9a-z_-]+={0,2}\.[A-Z0-9a-z_-]{80,}={0,2}",
        "AQVN[A-Za-z0-9_-]{30,}",
        "y[0-3]_[A-Za-z0-9_-]{50,}",
        r"YC[A-Za-z0-9_-]{38}",
    ),
    "paseto": (
        rf"v[1-4]\.(?:local|public)\.{_WORD}{{40,}}(?:\.{_WORD}+)?",
        rf"k[1-4]\.(?:local|secret)\.{_WORD}{{40,}}",
    ),
    "macaroon": (r"MDA[a-z0-9A-Z]{2}[A-Za-z0-9_-]{80,}={0,2}",),
    "extended_key": ("[xyz]prv[1-9A-HJ-NP-Za-km-z]{100,}",),
    "krb5": (r"\$krb5(?:tgs|asrep|pa)\$[^\s'\"]{40,}",),
    "salesforce": (r"00D[A-Za-z0-9]{12,15}![\w.]{60,}", "3MVG9[A-Za-z0-9._]{60,}"),
    "vault_batch": (r"hvb\.[\w-]{100,}",),
    "games": (r"RGAPI-[0-9a-z]{8}(?:-[0-9a-z]{4}){3}-[0-9a-z]{12}",),
    "unleash": (
        "user:[0-9a-f]{56,}",
        r"\*:[\w*-]{1,40}\.[0-9a-f]{56,}",
    ),
    "services": (
        "bpk-[0-9a-f]{32}",
        "dnkey-[A-Z0-9=_-]{26,}",
        "cr-[0-9a-f]{50,}",
        "packagist_[a-z]{3}_[0-9a-f]{60,}",
        "(?:pub|sub|sec)-c-[0-9A-Za-z-]{36,}",
        rf"{_UUID}:fx",
        r"1000\.[0-9a-f]{32}\.[0-9a-f]{32}",
        rf"6L{_WORD}{{38}}",
        "org_[0-9a-f]{60}",
        "ZXlK[A-Za-z0-9+/]{40,}={0,2}",
    ),
    "adobe": ("p8e-[A-Za-z0-9]{32}",),
    "asana": (r"[12]/\d{10,20}(?:/\d{10,20})?:[0-9a-f]{32}",),
}
"""Each begins where no letter or digit stands before it. A long tail is masked to its end (stage.py)."""

_NEAR: Final = {
    "aws": (r"aws|amazon|secret.?access", "[A-Za-z0-9+/]{40}"),
    "agora": ("agora[_.-]?app[_.-]?cert", "[0-9a-f]{32}"),
    "codeclimate": ("cc_test_reporter", "[0-9a-f]{64}"),
}

_PROVIDERS: Final = [
    "abuseipdb",
    "adyen",
    "algolia",
    "amplitude",
    "appdynamics",
    "appveyor",
    "asana",
    "auth0",
    "binance",
    "bitbucket",
    "bitfinex",
    "braintree",
    "bugsnag",
    "calendly",
    "censys",
    "circleci",
    "clearbit",
    "cloudflare",
    "cloudinary",
    "codecov",
    "coinbase",
    "coinmarketcap",
    "contentful",
    "coveralls",
    "dnsimple",
    "dropbox",
    "dynatrace",
    "etherscan",
    "facebook",
    "fastly",
    "flickr",
    "freshdesk",
    "giphy",
    "godaddy",
    "grafana",
    "heroku",
    "hetzner",
    "honeycomb",
    "hubspot",
    "imgur",
    "infura",
    "instagram",
    "intercom",
    "klaviyo",
    "kucoin",
    "launchdarkly",
    "lightstep",
    "linkedin",
    "linode",
    "loggly",
    "logzio",
    "mailerlite",
    "mailgun",
    "mailjet",
    "mandrill",
    "mapbox",
    "mixpanel",
    "namecheap",
    "newrelic",
    "newsapi",
    "nexmo",
    "okta",
    "onesignal",
    "openweather",
    "opsgenie",
    "optimizely",
    "pagerduty",
    "papertrail",
    "paypal",
    "pingdom",
    "pipedrive",
    "postmark",
    "providerdatadog",
    "rapidapi",
    "razorpay",
    "reddit",
    "rollbar",
    "scaleway",
    "sendgrid",
    "shodan",
    "snyk",
    "sparkpost",
    "splunk",
    "spotify",
    "statuspage",
    "sumologic",
    "trello",
    "tumblr",
    "twitch",
    "twitter",
    "typeform",
    "urlscan",
    "virustotal",
    "vonage",
    "vultr",
    "wakatime",
    "webex",
    "zendesk",
]
"""Whose keys are plain letters and digits, to be told by the name beside them only."""

_UUID_PROVIDERS: Final = [
    "ai21",
    "anypoint",
    "appveyor",
    "cypress",
    "deepl",
    "heroku",
    "loggly",
    "logentries",
    "logdna",
    "mulesoft",
    "ngrok",
    "postmark",
    "scaleway",
    "sendbird",
    "splunk",
    "statuspage",
    "vultr",
]
"""Whose keys are UUIDs."""

_OTHERS: Final = {
    "slack_webhook": (r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9_/+-]{20,})", Gate.NONE),
    "discord_webhook": (r"discord(?:app)?\.com/api/(?:v\d+/)?webhooks/(\d{15,20}/[\w-]{50,})", Gate.NONE),
    "teams_webhook": (r"webhook\.office\.com/webhookb2/([^\s\"'<>]{40,})", Gate.NONE),
    "zapier_webhook": (r"hooks\.zapier\.com/hooks/catch/([\w/]{8,})", Gate.NONE),
    "google_chat_webhook": (
        r"chat\.googleapis\.com/v1/spaces/[^\s\"']{1,64}key=([^\s\"'&]{20,}(?:&token=[^\s\"'&]+)?)",
        Gate.NONE,
    ),
    "alchemy": (r"\.(?:alchemyapi\.io|alchemy\.com)/(?:nft/)?v\d/([\w-]{20,})", Gate.NONE),
    "infura": (r"\binfura\.io/(?:ws/)?v3/([0-9a-f]{32})", Gate.NONE),
    "quicknode": (r"\bquiknode\.pro/([0-9a-f]{40})", Gate.NONE),
    "thingsboard": (r"/api/v1/([A-Za-z0-9]{20})/(?:telemetry|attributes|rpc|claim)\b", Gate.NONE),
    "bootstrap": (
        r"(?i:-token|bootstrap|kubeadm)[^\n]{0,40}?[\s\"'=:]([a-z0-9]{6}\.[a-z0-9]{16})(?:[\s\"',;]|$)",
        Gate.RANDOM,
    ),
    "pushbullet": (r"(?:^|[^\w.])(o\.[A-Za-z0-9]{32})(?:\W|$)", Gate.RANDOM),
    "mailchimp": (r"\b([0-9a-f]{32}-us\d{1,2})\b", Gate.NONE),
    "backblaze": (
        rf"(?:^|[^A-Za-z0-9+/_-])(K00\d{_BASE64}{{27}})(?:[^A-Za-z0-9+/=]|$)",
        Gate.RANDOM,
    ),
    "truenas": (r"(?:^|[^\w-])(\d{1,4}-[A-Za-z0-9]{64})(?:\W|$)", Gate.NONE),
    "jwt": (rf"\b(e(?:yJ|yA|wo|w0){_WORD}{{9,}}\.(?:e[yw])?{_WORD}{{9,}}(?:\.{_WORD}*){{0,3}})", Gate.NONE),
    "vault_legacy": (r"(?:^|[^\w.])([sbr]\.[A-Za-z0-9]{24})(?:\W|$)", Gate.RANDOM),
    "named_prefix": (
        r"(?:^|[^A-Za-z0-9])((?i:[a-z0-9]{0,12}[_-]?(?:key|secret|token|private|pat|sk|rk|api|live"
        r"|test|prod|sandbox|svc))"
        r"(?:[_-][a-z0-9]{1,8}){0,2}[_-](?:[0-9a-f]{32,}|[A-Za-z0-9]{20,}))(?:[^A-Za-z0-9]|$)",
        Gate.NAMED_PREFIX,
    ),
    "prefixed_uuid": (rf"(?:^|[^A-Za-z0-9_-])([a-z]{{2,12}}_{_UUID})\b", Gate.NONE),
    "prefixed": (
        r"(?:^|[^A-Za-z0-9_/.-])([A-Za-z][A-Za-z0-9]{1,14}(?:[_-][a-z0-9]{1,12}){0,3}[_-][A-Za-z0-"
        r"9]{20,})(?:[^A-Za-z0-9]|$)",
        Gate.PREFIXED,
    ),
}

_NO_DIGEST: Final = (
    "(?:[^0-9]|[^Aa0-9][0-9]|[Aa][02-9]|[^0-9][0-9][0-9]|[0146-9][0-9][0-9]|2[0-46-9][0-9]|25[0-57-9]"
    "|3[0-79][0-9]|38[0-35-9]|5[02-9][0-9]|51[013-9])"
)
"""What does not end like `sha1`, `sha256`, `sha384` or `sha512`: a lock file has thousands of digests, and to look at
each more closely takes so long that the rest of the file would be masked unseen."""
_RUN: Final = f"{_NO_DIGEST}[_-][A-Za-z0-9]{{20}}"
_SCREENS: Final = {
    "prefixed": _RUN,
    "named_prefix": _RUN,
    "prefixed_uuid": "_[0-9a-f]{8}-[0-9a-f]{4}-",
    "truenas": "[0-9]-[A-Za-z0-9]{64}",
    "mailchimp": "[0-9a-f]-us[0-9]",
    "backblaze": rf"K00[0-9]{_BASE64}{{27}}",
    "alchemy": r"\.(?:alchemyapi\.io|alchemy\.com)/",
    "infura": r"infura\.io/",
    "quicknode": r"quiknode\.pro/",
    "thingsboard": r"/api/v1/[A-Za-z0-9]{20}/",
    "bootstrap": r"(?i:-token|bootstrap|kubeadm)[^\n]*[\s\"'=:][a-z0-9]{6}\.[a-z0-9]{16}",
    "jwt": rf"\be(?:yJ|yA|wo|w0){_WORD}{{9}}",
}
