# ===- transformer.py - GPT and Llama -------------------------------------=== #
#
# Decoders over tokens [B, S]. Activations are rows [B S, hidden]; attention sees
# [B, heads, S, depth]. Tensor parallelism is Megatron's: projections into heads and
# into the FFN are split by columns, those out of them by rows.
#
# ===----------------------------------------------------------------------=== #
"""Transformer decoders."""

from __future__ import annotations

from ..ir.module import Value
from . import ops
from .model import Model
from .tape import Tape

_COLUMNS, _ROWS, _WHOLE = [[], ["tp"]], [["tp"], []], [[], []]


class Decoder(Model):
    """What both have: the data, heads, logits, the loss."""

    def __post_init__(self):
        s = self.sizes
        self.kv_heads = s.kv_heads or s.heads
        self.depth = s.hidden // s.heads
        self.data = [("tokens", "i64", (s.batch, s.seq)), ("labels", "i64", (s.batch, s.seq))]
        self.add("embedding.weight", s.vocab, s.hidden, sharding=_WHOLE)

    def add_head(self) -> None:
        if not self.sizes.tied:
            self.add("head.weight", self.sizes.hidden, self.sizes.vocab, sharding=_WHOLE)

    def to_heads(self, t: Tape, x: Value, heads: int) -> Value:
        """[B S, heads depth] to [B, heads, S, depth]."""
        x = ops.reshape(t, x, (-(-x.shape[0] // self.sizes.seq), self.sizes.seq, heads, self.depth))
        return ops.transpose(t, x, [0, 2, 1, 3])

    def from_heads(self, t: Tape, x: Value) -> Value:
        """Back from [B, heads, S, depth] to rows."""
        batch, heads, seq, depth = x.shape
        return ops.reshape(t, ops.transpose(t, x, [0, 2, 1, 3]), (batch * seq, heads * depth))

    def logits(self, t: Tape, p: dict[str, Value], x: Value) -> Value:
        if self.sizes.tied:
            return ops.matmul(t, x, ops.cast(t, p["embedding.weight"], x.dtype), transpose_w=True)
        return ops.linear(t, x, p["head.weight"])

    def finish(self, t: Tape, p: dict[str, Value], x: Value, data: dict[str, Value]) -> Value:
        t.b.loc = "head"
        logits = self.logits(t, p, x)
        t.b.loc = "loss"
        return ops.cross_entropy(t, logits, t.b.reshape(data["labels"], x.shape[:1]))

    def embed(self, t: Tape, p: dict[str, Value], tokens: Value) -> Value:
        t.b.loc = "embedding"
        rows = tokens.shape[0] * tokens.shape[1]
        return ops.embedding(t, p["embedding.weight"], t.b.reshape(tokens, (rows,)), self.sizes.dtype)


class Gpt(Decoder):
    """Learned positions, layer_norm, gelu; biases everywhere but on keys, where softmax takes them back."""

    def __post_init__(self):
        super().__post_init__()
        s = self.sizes
        ffn = s.ffn or 4 * s.hidden
        self.add("positions.weight", s.seq, s.hidden, sharding=_WHOLE)
        for i in range(s.layers):
            name = f"layers.{i}."
            self._add_norm(name + "norm1")
            for part, heads in (("query", s.heads), ("key", self.kv_heads), ("value", self.kv_heads)):
                self._add_linear(name + part, s.hidden, heads * self.depth, _COLUMNS, bias=part != "key")
            self._add_linear(name + "out", s.heads * self.depth, s.hidden, _ROWS)
            self._add_norm(name + "norm2")
            self._add_linear(name + "up", s.hidden, ffn, _COLUMNS)
            self._add_linear(name + "down", ffn, s.hidden, _ROWS)
        self._add_norm("norm")
        self.add_head()

    def _add_norm(self, name: str) -> None:
        self.add(name + ".weight", self.sizes.hidden, initial="ones", sharding=[[]])
        self.add(name + ".bias", self.sizes.hidden, initial="zeros", sharding=[[]])

    def _add_linear(self, name: str, before: int, after: int, sharding, bias: bool = True) -> None:
        self.add(name + ".weight", before, after, sharding=sharding)
        if bias:
            self.add(name + ".bias", after, initial="zeros", sharding=[sharding[1]])

    def loss(self, t, p, data, seen):
        s = self.sizes

        def norm(t, name, x):
            return ops.layer_norm(t, x, p[name + ".weight"], p[name + ".bias"])

        def linear(t, name, x):
            return ops.linear(t, x, p[name + ".weight"], p.get(name + ".bias"))

        def layer(i):
            name = f"layers.{i}."

            def build(t, x):
                t.b.loc = f"layers.{i}.attention"
                y = norm(t, name + "norm1", x)
                q = self.to_heads(t, linear(t, name + "query", y), s.heads)
                k, v = (self.to_heads(t, linear(t, name + part, y), self.kv_heads) for part in ("key", "value"))
                y = self.from_heads(t, ops.attention(t, q, k, v))
                x = ops.add(t, x, linear(t, name + "out", y))
                t.b.loc = f"layers.{i}.ffn"
                y = ops.activation(t, s.activation or "gelu_tanh", linear(t, name + "up", norm(t, name + "norm2", x)))
                return ops.add(t, x, linear(t, name + "down", y))
            return build

        x = self.embed(t, p, data["tokens"])
        rows = x.shape
        x = ops.add_positions(t, ops.reshape(t, x, data["tokens"].shape + (s.hidden,)), p["positions.weight"])
        x = ops.reshape(t, x, rows)
        for i in range(s.layers):
            x = self.block(t, layer(i), x)
        t.b.loc = "norm"
        return self.finish(t, p, norm(t, "norm", x), data)


class Llama(Decoder):
    """Rotary positions, rms_norm, a gated FFN, grouped queries; no bias."""

    def __post_init__(self):
        super().__post_init__()
        s = self.sizes
        # Two thirds of 4 hidden, rounded up to a multiple of 256 where models are large.
        ffn = s.ffn or (-(-8 * s.hidden // 3 // 256) * 256 if s.hidden >= 256 else 2 * s.hidden)
        for i in range(s.layers):
            name = f"layers.{i}."
            self.add(name + "norm1.weight", s.hidden, initial="ones", sharding=[[]])
            for part, heads in (("query", s.heads), ("key", self.kv_heads), ("value", self.kv_heads)):
                self.add(f"{name}{part}.weight", s.hidden, heads * self.depth, sharding=_COLUMNS)
            self.add(name + "out.weight", s.heads * self.depth, s.hidden, sharding=_ROWS)
            self.add(name + "norm2.weight", s.hidden, initial="ones", sharding=[[]])
            for part in ("gate", "up"):
                self.add(f"{name}{part}.weight", s.hidden, ffn, sharding=_COLUMNS)
            self.add(name + "down.weight", ffn, s.hidden, sharding=_ROWS)
        self.add("norm.weight", s.hidden, initial="ones", sharding=[[]])
        self.add_head()

    def loss(self, t, p, data, seen):
        s = self.sizes
        t.b.loc = "rope"
        tables = ops.rope_tables(t.b, s.seq, self.depth, s.theta, s.dtype)

        def layer(i):
            name = f"layers.{i}."

            def linear(t, part, x):
                return ops.linear(t, x, p[f"{name}{part}.weight"])

            def build(t, x):
                t.b.loc = f"layers.{i}.attention"
                y = ops.rms_norm(t, x, p[name + "norm1.weight"])
                q = self.to_heads(t, linear(t, "query", y), s.heads)
                k, v = (self.to_heads(t, linear(t, part, y), self.kv_heads) for part in ("key", "value"))
                q, k = (ops.rope(t, part, *tables) for part in (q, k))
                y = self.from_heads(t, ops.attention(t, q, k, v))
                x = ops.add(t, x, linear(t, "out", y))
                t.b.loc = f"layers.{i}.ffn"
                y = ops.rms_norm(t, x, p[name + "norm2.weight"])
                y = ops.gated(t, s.activation or "silu", linear(t, "gate", y), linear(t, "up", y))
                return ops.add(t, x, linear(t, "down", y))
            return build

        x = self.embed(t, p, data["tokens"])
        for i in range(s.layers):
            x = self.block(t, layer(i), x)
        t.b.loc = "norm"
        return self.finish(t, p, ops.rms_norm(t, x, p["norm.weight"]), data)
