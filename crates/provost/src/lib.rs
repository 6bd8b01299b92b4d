//! Provost, embeddable: run coding agents under orders, with evidence.
