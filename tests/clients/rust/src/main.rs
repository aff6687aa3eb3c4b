//! rskafka, which has no groups and no transactions: VERB BOOTSTRAP TOPIC WORDS...

use std::collections::BTreeMap;
use std::error::Error;
use std::io::BufRead;

use chrono::{TimeZone, Utc};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::ClientBuilder;
use rskafka::record::Record;

type Outcome = Result<(), Box<dyn Error>>;

fn codec(name: &str) -> Compression {
    match name {
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        _ => Compression::NoCompression,
    }
}

fn bytes(word: &str) -> Option<Vec<u8>> {
    let digits = word.strip_prefix('x')?;
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
    Some((0..digits.len()).step_by(2).map(byte).collect())
}

fn word(value: Option<&Vec<u8>>) -> String {
    const DIGITS: &[u8] = b"0123456789abcdef";
    let Some(value) = value else { return "-".into() };
    let mut found = String::from("x");
    for byte in value {
        found.push(DIGITS[usize::from(byte >> 4)] as char);
        found.push(DIGITS[usize::from(byte & 15)] as char);
    }
    found
}

fn parse(line: &str) -> Record {
    let words: Vec<&str> = line.split(' ').collect();
    let pairs = words[2].split(',').filter_map(|pair| pair.split_once('='));
    let headers = pairs.map(|(name, value)| (name.to_string(), bytes(value).unwrap_or_default()));
    Record {
        key: bytes(words[0]),
        value: bytes(words[1]),
        headers: headers.collect::<BTreeMap<_, _>>(),
        timestamp: Utc::now(),
    }
}

fn emit(offset: i64, record: &Record) {
    let pairs: Vec<String> =
        record.headers.iter().map(|(name, value)| format!("{name}={}", word(Some(value)))).collect();
    let headers = if pairs.is_empty() { "-".into() } else { pairs.join(",") };
    let (key, value) = (word(record.key.as_ref()), word(record.value.as_ref()));
    println!("record 0 {offset} {key} {value} {headers}");
}

async fn produce(partition: PartitionClient, codec: Compression) -> Outcome {
    let mut waiting = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line != "flush" {
            waiting.push(parse(&line));
            continue;
        }
        partition.produce(std::mem::take(&mut waiting), codec).await?;
        println!("done");
    }
    Ok(())
}

async fn fetch(partition: PartitionClient, start: &str, count: usize) -> Outcome {
    let mut offset = match start.strip_prefix('@') {
        Some(time) => {
            let time = Utc.timestamp_millis_opt(time.parse()?).unwrap();
            partition.get_offset(OffsetAt::Timestamp(time)).await?
        }
        None => start.parse()?,
    };
    let mut seen = 0;
    while seen < count {
        let (found, _) = partition.fetch_records(offset, 1..4 << 20, 500).await?;
        for one in found {
            emit(one.offset, &one.record);
            offset = one.offset + 1;
            seen += 1;
        }
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let client = ClientBuilder::new(vec![words[1].clone()]).build().await?;
    let partition = client.partition_client(&words[2], 0, UnknownTopicHandling::Retry).await?;
    match words[0].as_str() {
        "produce" => produce(partition, codec(&words[3])).await,
        _ => fetch(partition, &words[3], words[4].parse()?).await,
    }
}
