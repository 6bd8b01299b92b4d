// Checks a DSSE envelope with Sigstore's verifier, which is not ours. NODE_PATH names the folder of packages.
//
// usage: verify_bundle.cjs ENVELOPE PUBLIC_KEY_PEM
//
// The envelope is wrapped as a bundle of version 0.3 that names its key by a hint. No log and no timestamp is asked for:
// there is none. Exits with 0 where the key signed the envelope, with 1 where not, with 2 where the question could not be
// asked.
"use strict";

const fs = require("node:fs");
const { createPublicKey } = require("node:crypto");

function main([envelopePath, keyPath]) {
  const { bundleFromJSON } = require("@sigstore/bundle");
  const { Verifier, toSignedEntity } = require("@sigstore/verify");
  const publicKey = createPublicKey(fs.readFileSync(keyPath, "utf8"));
  const envelope = JSON.parse(fs.readFileSync(envelopePath, "utf8"));
  const none = { certificateAuthorities: [], timestampAuthorities: [], tlogs: [], ctlogs: [] };
  const trust = { ...none, publicKey: () => ({ publicKey, validFor: () => true }) };
  try {
    const bundle = bundleFromJSON({
      mediaType: "application/vnd.dev.sigstore.bundle.v0.3+json",
      verificationMaterial: { publicKey: { hint: envelope.signatures[0].keyid }, tlogEntries: [] },
      dsseEnvelope: envelope,
    });
    new Verifier(trust, { tlogThreshold: 0, ctlogThreshold: 0, timestampThreshold: 0 }).verify(toSignedEntity(bundle));
  } catch (error) {
    console.error(`refused: ${error.code ?? error.name}: ${error.message}`);
    return error.code === "SIGNATURE_ERROR" || error.name === "ValidationError" ? 1 : 2;
  }
  return 0;
}

process.exitCode = process.argv.length === 4 ? main(process.argv.slice(2)) : 2;
