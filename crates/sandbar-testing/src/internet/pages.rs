//! Pages of the web servers.

use std::{collections::HashMap, sync::Mutex};

use sandbar_core::MutexExt as _;
/// The answer to a request.
#[derive(Clone, Debug)]
pub struct Page {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Page {
    pub fn new(kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type".into(), kind.into())],
            body: body.into(),
        }
    }

    /// A redirect.
    pub fn redirect(to: &str) -> Self {
        Self {
            status: 302,
            headers: vec![("location".into(), to.into())],
            body: Vec::new(),
        }
    }
}

/// Pages by host and path. Everything that is not in here says hello.
#[derive(Debug, Default)]
pub struct Pages(Mutex<HashMap<(String, String), Page>>);

impl Pages {
    pub fn publish(&self, host: &str, path: &str, page: Page) {
        self.0
            .lock_unpoisoned()
            .insert((host.to_owned(), path.to_owned()), page);
    }

    /// Shows every file below a directory.
    pub fn publish_tree(&self, host: &str, path: &str, directory: &std::path::Path) {
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let below = format!("{path}/{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                self.publish_tree(host, &below, &entry.path());
            } else {
                let content = std::fs::read(entry.path()).unwrap();
                self.publish(host, &below, Page::new("application/octet-stream", content));
            }
        }
    }

    pub(super) fn find(&self, host: &str, path: &str) -> Page {
        let pages = self.0.lock_unpoisoned();
        match pages.get(&(host.to_owned(), path.to_owned())) {
            Some(page) => page.clone(),
            // A host that has pages does not have the others.
            None if pages
                .keys()
                .any(|(known, published)| known == host && below_same(published, path)) =>
            {
                Page {
                    status: 404,
                    headers: Vec::new(),
                    body: b"there is no such page\n".to_vec(),
                }
            }
            None => Page::new("text/plain", format!("hello from {host}\n")),
        }
    }
}

/// Whether two paths begin with the same name.
fn below_same(published: &str, path: &str) -> bool {
    let first = |path: &str| path.split('/').nth(1).map(str::to_owned);
    first(published) == first(path)
}
