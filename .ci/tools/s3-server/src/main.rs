//! An S3 server for tests: objects are files of one directory, `ROOT/BUCKET/KEY`. The crate s3s contains the protocol,
//! the XML and the verification of signatures; this file stores objects.
//!
//! `pathbench-s3-server ROOT PORT KEY SECRET` listens on 127.0.0.1.

use futures::TryStreamExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::dto::{
    DeleteObjectInput, DeleteObjectOutput, ETag, ETagCondition, GetObjectInput, GetObjectOutput,
    ListObjectsV2Input, ListObjectsV2Output, Object, PutObjectInput, PutObjectOutput, StreamingBlob,
};
use s3s::service::S3ServiceBuilder;
use s3s::{Body, S3, S3Request, S3Response, S3Result, s3_error};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;
use tokio::net::TcpListener;

/// The largest page of a list of objects in S3.
const LARGEST_PAGE: usize = 1000;

struct Store {
    root: PathBuf,
    /// A write compares the `ETag` and replaces the object as one step.
    writing: Mutex<()>,
}

fn e_tag(content: &[u8]) -> ETag {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    ETag::Strong(format!("{:016x}", hasher.finish()))
}

impl Store {
    fn bucket(&self, bucket: &str) -> S3Result<PathBuf> {
        let path = self.root.join(bucket);
        if path.is_dir() { Ok(path) } else { Err(s3_error!(NoSuchBucket)) }
    }

    fn object(&self, bucket: &str, key: &str) -> S3Result<PathBuf> {
        let normal = Path::new(key).components().all(|component| matches!(component, Component::Normal(_)));
        if normal { Ok(self.bucket(bucket)?.join(key)) } else { Err(s3_error!(InvalidArgument)) }
    }
}

fn read(path: &Path) -> S3Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory) => {
            Ok(None)
        }
        Err(error) => Err(s3_error!(error, InternalError)),
    }
}

/// Adds the keys below `directory`.
fn add_keys(bucket: &Path, directory: &Path, keys: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            add_keys(bucket, &path, keys)?;
        } else if let Some(key) = path.strip_prefix(bucket).ok().and_then(Path::to_str) {
            keys.push(key.to_owned());
        }
    }
    Ok(())
}

#[async_trait::async_trait]
impl S3 for Store {
    async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let input = request.input;
        let path = self.object(&input.bucket, &input.key)?;
        let mut content = Vec::new();
        let mut body = input.body.ok_or_else(|| s3_error!(IncompleteBody))?;
        while let Some(bytes) = body.try_next().await.map_err(|_| s3_error!(IncompleteBody))? {
            content.extend_from_slice(&bytes);
        }
        let _writing = self.writing.lock().map_err(|_| s3_error!(InternalError))?;
        let present = read(&path)?.map(|content| e_tag(&content));
        match input.if_match {
            Some(ETagCondition::ETag(_)) if present.is_none() => return Err(s3_error!(NoSuchKey)),
            Some(ETagCondition::ETag(expected)) if present.as_ref() != Some(&expected) => {
                return Err(s3_error!(PreconditionFailed));
            }
            _ => {}
        }
        if input.if_none_match.is_some() && present.is_some() {
            return Err(s3_error!(PreconditionFailed));
        }
        // A reader sees the old object or the new one.
        let written = self.root.join(".written");
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&written, &content))
            .and_then(|()| fs::rename(&written, &path))
            .map_err(|error| s3_error!(error, InternalError))?;
        Ok(S3Response::new(PutObjectOutput { e_tag: Some(e_tag(&content)), ..Default::default() }))
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let input = request.input;
        let content = read(&self.object(&input.bucket, &input.key)?)?.ok_or_else(|| s3_error!(NoSuchKey))?;
        let tag = e_tag(&content);
        let length = content.len();
        let (part, range) = match input.range {
            None => (content, None),
            Some(range) => {
                let range = range.check(length as u64)?;
                let text = format!("bytes {}-{}/{length}", range.start, range.end - 1);
                (content[range.start as usize..range.end as usize].to_vec(), Some(text))
            }
        };
        Ok(S3Response::new(GetObjectOutput {
            content_length: Some(part.len() as i64),
            body: Some(StreamingBlob::from(Body::from(part))),
            content_range: range,
            e_tag: Some(tag),
            ..Default::default()
        }))
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        let path = self.object(&request.input.bucket, &request.input.key)?;
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(s3_error!(error, InternalError)),
            _ => Ok(S3Response::new(DeleteObjectOutput::default())),
        }
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = request.input;
        if input.delimiter.is_some() {
            return Err(s3_error!(NotImplemented));
        }
        let bucket = self.bucket(&input.bucket)?;
        let mut keys = Vec::new();
        add_keys(&bucket, &bucket, &mut keys).map_err(|error| s3_error!(error, InternalError))?;
        let prefix = input.prefix.clone().unwrap_or_default();
        // The token is the last key of the page before.
        let after = input.continuation_token.clone().or(input.start_after.clone());
        keys.retain(|key| key.starts_with(&prefix) && after.as_ref().is_none_or(|after| key > after));
        keys.sort();
        let asked = input.max_keys.and_then(|keys| usize::try_from(keys).ok()).unwrap_or(LARGEST_PAGE);
        let page = asked.min(LARGEST_PAGE);
        let truncated = keys.len() > page;
        keys.truncate(page);
        let next = keys.last().filter(|_| truncated).cloned();
        let mut contents = Vec::new();
        for key in keys {
            let path = bucket.join(&key);
            // It may have been deleted meanwhile.
            if let (Some(content), Ok(metadata)) = (read(&path)?, fs::metadata(&path)) {
                contents.push(Object {
                    key: Some(key),
                    size: Some(content.len() as i64),
                    e_tag: Some(e_tag(&content)),
                    last_modified: metadata.modified().ok().map(Into::into),
                    ..Default::default()
                });
            }
        }
        Ok(S3Response::new(ListObjectsV2Output {
            key_count: i32::try_from(contents.len()).ok(),
            max_keys: i32::try_from(page).ok(),
            contents: Some(contents),
            is_truncated: Some(truncated),
            next_continuation_token: next,
            continuation_token: input.continuation_token,
            encoding_type: input.encoding_type,
            name: Some(input.bucket),
            prefix: input.prefix,
            ..Default::default()
        }))
    }
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [root, port, key, secret] = arguments.as_slice() else {
        println!("pathbench-s3-server {}", env!("CARGO_PKG_VERSION"));
        return Ok(());
    };
    let store = Store { root: root.into(), writing: Mutex::new(()) };
    let mut builder = S3ServiceBuilder::new(store);
    builder.set_auth(SimpleAuth::from_single(key.as_str(), secret.as_str()));
    let service = builder.build();
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    loop {
        let (connection, _) = listener.accept().await?;
        let service = service.clone();
        tokio::spawn(async move {
            let server = Builder::new(TokioExecutor::new());
            // A connection that fails ends alone.
            let _ = server.serve_connection(TokioIo::new(connection), service).await;
        });
    }
}
