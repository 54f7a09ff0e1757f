//! Files. All crates open, read and write files with this module, which clippy enforces (`clippy.toml`).
//!
//! A directory that another user can write to may hold a symbolic link, a FIFO or a device in place of each file, so
//! no function follows a symbolic link in place of the file or directory that it is to write, and only regular files
//! are opened. A file that the user names is read through symbolic links, and may be a pipe ([`open_named`]).
//! A file is replaced as a whole, so that a reader sees the old content or the new content ([`Replacement`]).

mod directory;
mod reading;
mod replacement;

pub use directory::{
    OpenDirectory, append, append_existing, create_anew, create_new, open_for_update, open_own,
};
pub use reading::{
    check_length, open, open_named, open_stream, read, read_named, read_text, read_text_named,
};
pub use replacement::{Replacement, TEMPORARY, append_named, replace, write_named};

/// Bound of a file of the kernel in `/proc` or `/sys`, and of a file of settings.
pub const SMALL_FILE_BYTES: u64 = 16 << 20;
