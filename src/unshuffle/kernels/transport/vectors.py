"""Numbers of problems side by side as one value: a vector of `LANES` floats.

A loop over lanes would ask, before it takes a vector at a time, how far the arrays that it reads
and writes lie apart, and it could not keep a sum in registers. A vector is read from a row of an
array, reckoned with lane by lane, and written. Every operation rounds as that of single numbers.
"""

import operator

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

# Problems side by side: more wait longer for the slowest of them, fewer leave vectors half empty.
LANES = 32
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
# Rows lie at any place of eight bytes.
_ALIGNED = 8


class Vector(types.Type):
    """The type of a vector."""

    def __init__(self):
        super().__init__(name=f"Vector({LANES})")


_TYPE = Vector()


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, _VECTOR)


def _place(context, builder, array_type, array, row):
    """Return the address of a row of `LANES` numbers."""
    data = context.make_array(array_type)(context, builder, array).data
    start = builder.mul(row, ir.Constant(row.type, LANES))
    return builder.bitcast(builder.gep(data, [start]), _VECTOR.as_pointer())


@intrinsic
def read(context, rows, i):
    """Return row i of a contiguous array of rows of `LANES` numbers."""

    def generate(context, builder, signature, args):
        place = _place(context, builder, signature.args[0], *args)
        return builder.load(place, align=_ALIGNED)

    return _TYPE(rows, types.intp), generate


@intrinsic
def write(context, rows, i, value):
    """Write a vector into row i."""

    def generate(context, builder, signature, args):
        place = _place(context, builder, signature.args[0], *args[:2])
        builder.store(args[2], place, align=_ALIGNED)
        return context.get_dummy_value()

    return types.none(rows, types.intp, _TYPE), generate


def _widen(builder, kind, value):
    """Return a vector of one number where it is none yet."""
    if isinstance(kind, Vector):
        return value
    nothing = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
    order = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, nothing, order)


@intrinsic
def fill(context, number):
    """Return a vector of one number."""

    def generate(context, builder, signature, args):
        return _widen(builder, signature.args[0], args[0])

    return _TYPE(types.float64), generate


@intrinsic
def choose(context, left, right, value, other):
    """Return the value where left is larger than right, else the other: numbers or vectors."""

    def generate(context, builder, signature, args):
        left, right, value, other = (
            _widen(builder, kind, arg) for kind, arg in zip(signature.args, args, strict=True)
        )
        return builder.select(builder.fcmp_ordered(">", left, right), value, other)

    return _TYPE(left, right, value, other), generate


def _define(function, build):
    """Let numba use an operation on two vectors, or on a vector and a number."""

    @type_callable(function)
    def _type(context):
        def find(left, right):
            kinds = (left, right)
            is_known = all(isinstance(kind, Vector | types.Float) for kind in kinds)
            return _TYPE if is_known and any(isinstance(kind, Vector) for kind in kinds) else None

        return find

    for kinds in ((Vector, Vector), (Vector, types.Float), (types.Float, Vector)):

        @lower_builtin(function, *kinds)
        def _lower(context, builder, signature, args):
            left, right = (
                _widen(builder, kind, arg) for kind, arg in zip(signature.args, args, strict=True)
            )
            return build(builder, left, right)


_define(operator.add, ir.IRBuilder.fadd)
_define(operator.sub, ir.IRBuilder.fsub)
_define(operator.mul, ir.IRBuilder.fmul)
_define(operator.truediv, ir.IRBuilder.fdiv)
