# A client for the sandbox's scenarios: one cached token per owner, and exponential backoff.
import json
import os
import time
from urllib.request import Request, urlopen

BASE = os.environ["OTR_BASE_URL"]
CLIENT = {"client_id": os.environ["OTR_CLIENT_ID"], "client_secret": os.environ["OTR_CLIENT_SECRET"]}
tokens, backoff_s, retry_at = {}, {}, {}


def send(path, headers, body=None):
    return json.load(urlopen(Request(BASE + path, body, headers), timeout=10))


def call_api(key):
    if key not in tokens:
        body = json.dumps({"grant_type": "client_credentials", **CLIENT, "appliance_owner_scope": key}).encode()
        tokens[key] = send("/auth/v1/token", {"content-type": "application/json"}, body)["access_token"]
        backoff_s[key] = 1
    send("/echo", {"authorization": "Bearer " + tokens[key]})


while True:
    for key in os.environ["OTR_ACCESS_KEYS"].split(","):
        if time.monotonic() < retry_at.get(key, 0):
            continue
        try:
            call_api(key)
        except OSError as error:  # no response, or a 4xx or 5xx
            if getattr(error, "code", None) == 401:
                tokens.pop(key, None)
            retry_at[key] = time.monotonic() + backoff_s.setdefault(key, 1)
            backoff_s[key] = min(60, 2 * backoff_s[key])
    time.sleep(0.1)
