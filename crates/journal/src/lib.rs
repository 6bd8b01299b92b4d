//! The journal: fenced appends, leases, blobs and projections over SQLite.
