"""Checks a signed in-toto Statement with securesystemslib and in-toto's own types, verifiers that are not ours.

usage: verify_statement.py ENVELOPE PREDICATE_TYPE THRESHOLD PUBLIC_KEY_PEM...

Exits with 0 where so many of these keys signed a Statement whose predicate is of that type (and, where in-toto has types
for it, holds nothing that they do not know), with 1 where not, with 2 where the question could not be asked.
"""

import json
import pathlib
import sys

from cryptography.hazmat.primitives.serialization import load_pem_public_key
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.predicates.test_result.v0 import test_result_pb2
from in_toto_attestation.predicates.vsa.v1 import vsa_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

VSA = "https://slsa.dev/verification_summary/v1"
TYPES = {
    "https://slsa.dev/provenance/v1": provenance_pb2.Provenance,
    "https://in-toto.io/attestation/test-result/v0.1": test_result_pb2.TestResult,
    VSA: vsa_pb2.VerificationSummary,
}


def main() -> int:
    if len(sys.argv) < 5:
        print(__doc__, file=sys.stderr)
        return 2
    path, predicate_type, threshold = sys.argv[1:4]
    keys = [SSlibKey.from_crypto(load_pem_public_key(pathlib.Path(pem).read_bytes())) for pem in sys.argv[4:]]
    text = pathlib.Path(path).read_text()
    try:
        # from_dict changes its argument: each envelope is parsed afresh.
        envelope = Envelope.from_dict(json.loads(text))
        envelope.verify(keys, int(threshold))
        if envelope.payload_type != "application/vnd.in-toto+json":
            raise ValueError(f"payload type {envelope.payload_type}")
        parsed = json_format.Parse(envelope.payload, statement_pb2.Statement())
        Statement.copy_from_pb(parsed).validate()
        if parsed.predicate_type != predicate_type:
            raise ValueError(f"predicate type {parsed.predicate_type}")
        if predicate_type in TYPES:
            predicate = json.loads(envelope.payload)["predicate"]
            if predicate_type == VSA:
                # SLSA's text and example have a list here; in-toto-attestation 0.9.3 has one text.
                levels = predicate.pop("verifiedLevels")
                if not isinstance(levels, list) or not all(isinstance(level, str) for level in levels):
                    raise ValueError("verifiedLevels is no list of texts")
            json_format.ParseDict(predicate, TYPES[predicate_type]())
    except (VerificationError, json_format.ParseError, ValueError) as error:
        print(f"refused: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
