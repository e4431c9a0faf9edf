"""Texts and ids, by the gateway's tokenizer."""

import json
import urllib.error
import urllib.parse
import urllib.request

from . import errors


class Tokenizer:
    """The model's tokenizer, at the gateway."""

    def __init__(self, connection, model):
        self._connection, self._model, self._asked = connection, model, False
        # A gateway may be on this machine: no proxy is asked for it.
        self._http = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def __call__(self, text, special=True):
        """The ids of a text. special: with what the model puts around one, such as a begin token."""
        return self._post("/tokenize", {"prompt": text, "add_special_tokens": special})["tokens"]

    def chat(self, messages):
        """The ids of a conversation in the model's template, ready for the answer. messages: dicts with
        role and content."""
        return self._post("/tokenize", {"messages": messages})["tokens"]

    def decode(self, ids):
        """The text of ids."""
        return self._post("/detokenize", {"tokens": [int(i) for i in ids]})["prompt"]

    @property
    def eos_token_id(self):
        """The id of the end token; None if the model has none."""
        if not self._asked:
            name = self._ask("/tokenizer_info?" + urllib.parse.urlencode({"model": self._model}), None).get("eos_token")
            ids = self(name, special=False) if name else []
            self._eos, self._asked = ids[0] if len(ids) == 1 else None, True
        return self._eos

    def _post(self, path, body):
        return self._ask(path, dict(body, model=self._model))

    def _ask(self, path, body):
        headers = {"Content-Type": "application/json"}
        if self._connection.token:
            headers["Authorization"] = "Bearer " + self._connection.token
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._connection.http + path, data, headers)
        try:
            with self._http.open(request, timeout=60) as r:
                return json.load(r)
        except urllib.error.HTTPError as e:
            try:
                error = json.load(e)["error"]
            except (ValueError, KeyError, TypeError):
                error = {"message": f"status {e.code}", "code": ""}
            raise errors.InvalidRequest(error.get("message"), error.get("code") or "", error.get("param")) from e
        except OSError as e:
            raise errors.ConnectionFailed(f"the gateway at {self._connection.http} cannot be reached: {e}", "unreached") from e
