"""All operations that the interpreter knows, by MIL's names: arrays in, an array or a tuple out."""

from vrt.coreml.ops.compressed import COMPRESSED
from vrt.coreml.ops.elementwise import ELEMENTWISE
from vrt.coreml.ops.indexing import INDEXING
from vrt.coreml.ops.layout import LAYOUT
from vrt.coreml.ops.products import PRODUCTS
from vrt.coreml.ops.recurrent import RECURRENT
from vrt.coreml.ops.reductions import REDUCTIONS

OPS = ELEMENTWISE | REDUCTIONS | PRODUCTS | RECURRENT | LAYOUT | INDEXING | COMPRESSED
