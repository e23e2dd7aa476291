"""A module of the fusion dialect as plain Python data, its builder and its text."""
