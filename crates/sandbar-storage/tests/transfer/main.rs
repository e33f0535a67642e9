//! Trees that move: copied, archived, imported as bases, packed into an object store and back.

mod support;
mod tree_copy;
