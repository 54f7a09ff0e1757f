//! An S3 server (s3proxy), for one test.
