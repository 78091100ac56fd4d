//! Reads an epoch from Millrace gateways with Rust's standard library, and prints a line for each sample.
//! It speaks plain HTTP, as inside a cluster; for https, put any HTTP client of yours in the place of `ask`.

use std::collections::HashMap;
use std::io::{Error, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use std::{env, process, thread};

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ byte as u32, |n, _| if n & 1 == 1 { n >> 1 ^ 0x82f63b78 } else { n >> 1 })
    })
}

struct Answer {
    status: u16,
    headers: HashMap<String, String>,
    stream: TcpStream,
    rest: Vec<u8>, // of the body, come together with the headers
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Reads the body, and keeps what has come before an error.
    fn read_into(mut self, body: &mut Vec<u8>) -> Result<(), Error> {
        let length = self.header("content-length").parse().unwrap_or(u64::MAX); // without it: to the end of the connection
        let left = length.saturating_sub(self.rest.len() as u64);
        body.append(&mut self.rest);
        self.stream.take(left).read_to_end(body).map(|_| ())
    }
}

/// Sends one request on a connection of its own, and reads the headers of the answer.
fn ask(gateway: &str, path: &str, extra: &str) -> Result<Answer, Error> {
    let host = gateway.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{extra}\r\n")?;
    let (mut rest, mut buffer) = (Vec::new(), [0; 1 << 14]);
    let end = loop {
        if let Some(end) = rest.windows(4).position(|w| w == b"\r\n\r\n") {
            break end;
        }
        match stream.read(&mut buffer)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            n => rest.extend_from_slice(&buffer[..n]),
        }
    };
    let head = String::from_utf8_lossy(&rest[..end]).into_owned();
    rest.drain(..end + 4);
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or(ErrorKind::InvalidData)?;
    let headers = head.lines().filter_map(|l| l.split_once(": ")).map(|(k, v)| (k.to_lowercase(), v.to_string())).collect();
    Ok(Answer { status, headers, stream, rest })
}

/// A batch that is being read.
#[derive(Default)]
struct Batch {
    headers: HashMap<String, String>,
    body: Vec<u8>,
    size: usize,
    etag: String,
}

impl Batch {
    /// Requests the missing rest. An error is retryable, and has the pause.
    fn fetch(&mut self, gateway: &str, path: &str) -> Result<(), (Error, Option<Duration>)> {
        let have = self.body.len();
        let resume = format!("Range: bytes={have}-\r\nIf-Range: {}\r\n", self.etag);
        let answer = ask(gateway, path, if have > 0 { &resume } else { "" }).map_err(|e| (e, None))?;
        let status = answer.status;
        if status == 200 {
            // the whole of it, even for a range
            self.body.clear();
            self.size = answer.header("content-length").parse().unwrap_or(usize::MAX);
            self.etag = answer.header("etag").to_string();
        } else if matches!(status, 408 | 429 | 500 | 503 | 504) || answer.headers.contains_key("retry-after") {
            let pause = answer.header("retry-after").parse().ok().map(Duration::from_secs);
            return Err((Error::other(format!("status {status}")), pause));
        } else if status != 206 || !answer.header("content-range").starts_with(&format!("bytes {have}-")) {
            let mut text = Vec::new();
            let _ = answer.read_into(&mut text);
            fail(&format!("{path}: status {status}: {}", String::from_utf8_lossy(&text)));
        }
        self.headers = answer.headers.clone();
        answer.read_into(&mut self.body).map_err(|e| (e, None))?;
        if self.body.len() < self.size {
            return Err((Error::other(format!("{} of {} bytes", self.body.len(), self.size)), None));
        }
        if format!("{:08x}", crc32c(&self.body)) != self.headers["millrace-crc32c"] {
            self.body.clear(); // the damage could be anywhere
            return Err((Error::other("wrong CRC-32C"), None));
        }
        Ok(())
    }
}

/// A batch: retried, resumed, checked. The gateway that answers is moved to the front.
fn get(gateways: &mut [String], path: &str) -> Batch {
    let (mut batch, start) = (Batch::default(), Instant::now());
    for attempt in 1.. {
        let Err((e, pause)) = batch.fetch(&gateways[0], path) else { break };
        if start.elapsed() > Duration::from_secs(120) {
            fail(&format!("{}{path}: {e}, given up after 120 s", gateways[0]));
        }
        gateways.rotate_left(1);
        if attempt % gateways.len() == 0 {
            // all of them were asked
            thread::sleep(pause.unwrap_or(Duration::from_millis(100 << attempt.min(5))));
        }
    }
    batch
}

fn number(body: &[u8], at: usize) -> usize {
    u32::from_le_bytes(body[at..at + 4].try_into().unwrap()) as usize
}

/// Prints the samples of a framed body: its header has 40 bytes, and lengths follow.
fn print(number_of_batch: &str, body: &[u8]) {
    if body.len() < 40 || &body[..4] != b"MLRF" {
        fail("this is not the framed form");
    }
    let mut at = number(body, 28);
    for i in 0..number(body, 8) {
        let length = number(body, 40 + 4 * i);
        println!("{number_of_batch} {i} {length} {:08x}", crc32c(&body[at..at + length]));
        at += length;
    }
}

fn fail(text: &str) -> ! {
    eprintln!("{text}");
    process::exit(1)
}

fn main() {
    let said = |name| env::var(name).unwrap_or_default();
    let mut gateways: Vec<String> = said("MILLRACE_URL").split_whitespace().map(String::from).collect();
    let plan = said("MILLRACE_PLAN");
    let query = if plan.is_empty() { plan } else { format!("&{plan}") };
    let (dataset, epoch) = (said("MILLRACE_DATASET"), said("MILLRACE_EPOCH"));
    let mut path = Some(format!("/v1/datasets/{dataset}/epochs/{epoch}/batches/0?format=framed{query}"));
    while let Some(p) = path {
        let batch = get(&mut gateways, &p);
        print(&batch.headers["millrace-batch"], &batch.body);
        let link = batch.headers.get("link").and_then(|l| l.strip_prefix('<')); // it pins the generation
        path = link.and_then(|l| l.split_once(">; rel=\"next\"")).map(|(p, _)| p.to_string());
    }
}
