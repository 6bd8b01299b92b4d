//! Providers: the wires, streaming, retry, and the rehearsal server.
