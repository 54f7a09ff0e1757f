//! Sans-IO cores of the server, its datagrams, and measurements of paths and links.

mod bounds;
mod calibration;
mod datagram;
mod probability;
mod response;
