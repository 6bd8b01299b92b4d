"""Verifies a bundle's signed statement with securesystemslib, a verifier that is not ours.

usage: verify_dsse.py BUNDLE PUBLIC_KEY_PEM

Prints the key id that securesystemslib computes for the key. Exits with 0 where exactly that key signed the statement,
with 1 where it did not, with 2 where the question could not be asked.
"""

import json
import pathlib
import sys

from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    bundle, pem = (pathlib.Path(arg) for arg in sys.argv[1:])
    key = SSlibKey.from_crypto(load_pem_public_key(pem.read_bytes()))
    print(key.keyid)
    # from_dict changes its argument: each envelope is parsed afresh.
    envelope = Envelope.from_dict(json.loads((bundle / "result.dsse.json").read_text()))
    try:
        envelope.verify([key], 1)
    except VerificationError as error:
        print(f"refused: {error}", file=sys.stderr)
        return 1
    if envelope.payload_type != "application/vnd.in-toto+json":
        print(f"refused: payload type {envelope.payload_type}", file=sys.stderr)
        return 1
    statement = json.loads(envelope.payload)
    if statement["_type"] != "https://in-toto.io/Statement/v1":
        print(f"refused: statement type {statement['_type']}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
