//! Evidence: canonical JSON, hash chain, keys, signatures, the bundle format and its verification.
