// Owns the precompiled header of a header set; has no code of its own.
