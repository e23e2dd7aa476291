"""Frontends: each turns a model of another format into a module of the dialect."""
