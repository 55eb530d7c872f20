//! How fast the log service takes lines, and what that costs: MB/s, CPU of its two threads, memory, lines lost.
//!
//! ```text
//! cargo run --release -p forkful-daemon --example log_throughput -- [--writers 4] [--line 1000]
//!     [--seconds 3] [--rate LINES_PER_SECOND] [--merged] [--time] [--json-lines] [--rotate] [--follow] [--idle 1000] [--folder DIR]
//! ```
//! The writers are processes of this same program, each of which writes a line per `write(2)`, as Node does,
//! as fast as it can, or at `--rate`. The lines that were sent are counted again in the files. `--idle`
//! first attaches that many streams that say nothing and prints what they cost.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use forkful_api::types::LogStream;
use forkful_core::logs::{LineFormat, LogRotation};
use forkful_core::slot::Generation;
use forkful_daemon::logs::{FollowFilter, FollowRequest, Followed, LineStyle, LogService, Stamp, StreamSpec};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Units of the times in `/proc/…/stat` on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

struct Options {
    writers: u32,
    line: usize,
    seconds: f64,
    rate: Option<f64>,
    merged: bool,
    time: bool,
    json_lines: bool,
    rotate: bool,
    follow: bool,
    idle: u32,
    folder: PathBuf,
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, line, seconds, rate] = arguments.as_slice()
        && word == "--write"
    {
        return write_lines(line.parse()?, Duration::from_secs_f64(seconds.parse()?), rate.parse()?);
    }
    measure(&parse(&arguments)?)
}

fn parse(arguments: &[String]) -> Outcome<Options> {
    let mut options = Options {
        writers: 4,
        line: 1000,
        seconds: 3.0,
        rate: None,
        merged: false,
        time: false,
        json_lines: false,
        rotate: false,
        follow: false,
        idle: 0,
        folder: std::env::temp_dir(),
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--writers" => options.writers = value()?.parse()?,
            "--line" => options.line = value()?.parse::<usize>()?.max(20),
            "--seconds" => options.seconds = value()?.parse()?,
            "--rate" => options.rate = Some(value()?.parse()?),
            "--idle" => options.idle = value()?.parse()?,
            "--folder" => options.folder = value()?.into(),
            "--merged" => options.merged = true,
            "--time" => options.time = true,
            "--json-lines" => options.json_lines = true,
            "--rotate" => options.rotate = true,
            "--follow" => options.follow = true,
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    Ok(options)
}

fn style(options: &Options) -> LineStyle {
    LineStyle {
        format: if options.json_lines { LineFormat::Json } else { LineFormat::Raw },
        stamp: if options.time { Stamp::Iso } else { Stamp::None },
        ..LineStyle::default()
    }
}

/// The writer: numbered lines of `line` bytes, one call each; says on stderr how many.
fn write_lines(line: usize, span: Duration, rate: f64) -> Outcome<()> {
    let mut out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let (start, mut sent, mut text) = (Instant::now(), 0_u64, vec![b' '; line]);
    text[line - 1] = b'\n';
    while start.elapsed() < span {
        let due = if rate > 0.0 { (start.elapsed().as_secs_f64() * rate) as u64 } else { sent + 16 };
        while sent < due {
            text[..12].copy_from_slice(format!("{sent:>12}").as_bytes());
            out.write_all(&text)?;
            sent += 1;
        }
        if rate > 0.0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    eprint!("{sent}");
    Ok(())
}

fn measure(options: &Options) -> Outcome<()> {
    let folder = options.folder.join(format!("forkful-log-throughput-{}", std::process::id()));
    let service = LogService::start()?;
    let idle_pipes = attach_idle(&service, &folder, options.idle)?;
    let start = Instant::now();
    let mut children = Vec::new();
    for pm_id in 0..options.writers {
        let mut child = spawn_writer(options)?;
        let name = if options.merged { "merged.log".to_owned() } else { format!("{pm_id}.log") };
        let (path, pipe) = (folder.join(name), child.stdout.take().ok_or("no stdout")?);
        let spec = StreamSpec {
            app: "bench".to_owned(),
            pm_id,
            process: Generation(1),
            stream: LogStream::Out,
            paths: vec![path],
            style: style(options),
            rotation: options.rotate.then(|| LogRotation {
                keep: LogRotation::KEEP_MAX,
                total: None,
                ..LogRotation::default()
            }),
            echo: None,
        };
        service.attach(spec, OwnedFd::from(pipe));
        children.push(child);
    }
    let follower = options.follow.then(|| {
        let mut lines = service.subscribe(request(true));
        std::thread::spawn(move || {
            let mut received = 0_u64;
            while lines.blocking_recv().is_some() {
                received += 1;
            }
            received
        })
    });
    let sent = wait_for(children)?;
    // Answered when everything before it is in the files.
    assert!(service.subscribe(request(false)).blocking_recv().is_none(), "nothing was asked for");
    let seconds = start.elapsed().as_secs_f64();
    report_cpu(seconds)?;
    let dropped: u64 = (0..options.writers).map(|pm_id| service.dropped_lines(pm_id)).sum();
    drop((service, idle_pipes));
    if let Some(received) = follower.and_then(|thread| thread.join().ok()) {
        println!("{received:>12} lines received by the follower");
    }
    let mut found = 0;
    // With what was set aside, compressed or not.
    for entry in fs_err::read_dir(&folder)?.flatten() {
        found += lines_in(&entry.path())?;
    }
    fs_err::remove_dir_all(&folder)?;
    let megabytes = (sent * options.line as u64) as f64 / 1e6;
    println!("{:>12.1} MB/s, {:.0} lines/s", megabytes / seconds, sent as f64 / seconds);
    println!("{sent:>12} lines sent, {found} in the files, {dropped} dropped and counted");
    if sent == found + dropped { Ok(()) } else { Err("lines were lost".into()) }
}

fn attach_idle(service: &LogService, folder: &Path, streams: u32) -> Outcome<Vec<io::PipeWriter>> {
    // Both threads have begun.
    assert!(service.subscribe(request(false)).blocking_recv().is_none(), "nothing was asked for");
    let before = memory("VmRSS:")?;
    let mut pipes = Vec::new();
    for stream in 0..streams {
        let (read_end, write_end) = io::pipe()?;
        let spec = StreamSpec {
            app: "idle".to_owned(),
            pm_id: 1_000_000 + stream / 2,
            process: Generation(1),
            stream: if stream % 2 == 0 { LogStream::Out } else { LogStream::Err },
            paths: vec![folder.join(format!("idle-{stream}.log"))],
            style: LineStyle::default(),
            rotation: Some(LogRotation::default()),
            echo: None,
        };
        service.attach(spec, read_end.into());
        pipes.push(write_end);
    }
    assert!(service.subscribe(request(false)).blocking_recv().is_none(), "nothing was asked for");
    if streams > 0 {
        println!("{:>12} kB for {streams} idle streams", memory("VmRSS:")? - before);
    }
    Ok(pipes)
}

fn lines_in(path: &Path) -> Outcome<u64> {
    let file = fs_err::File::open(path)?;
    let mut reader: Box<dyn Read> = match path.extension() {
        Some(extension) if extension == "gz" => Box::new(flate2::read::GzDecoder::new(file)),
        Some(extension) if extension == "tmp" => return Ok(0),
        _ => Box::new(file),
    };
    let (mut lines, mut piece) = (0, vec![0; 1 << 20]);
    loop {
        match reader.read(&mut piece)? {
            0 => return Ok(lines),
            count => lines += piece[..count].iter().filter(|byte| **byte == b'\n').count() as u64,
        }
    }
}

fn request(follow: bool) -> FollowRequest {
    let filter = FollowFilter { who: Followed::All, stream: None };
    FollowRequest { files: Vec::new(), lines: 0, follow, filter }
}

fn spawn_writer(options: &Options) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg("--write")
        .args([options.line.to_string(), options.seconds.to_string()])
        .arg(options.rate.unwrap_or(0.0).to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// The number of lines that all writers sent.
fn wait_for(children: Vec<Child>) -> Outcome<u64> {
    let mut sent = 0;
    for mut child in children {
        let mut said = String::new();
        child.stderr.take().ok_or("no stderr")?.read_to_string(&mut said)?;
        if !child.wait()?.success() {
            return Err(format!("a writer failed: {said}").into());
        }
        sent += said.parse::<u64>()?;
    }
    Ok(sent)
}

fn report_cpu(seconds: f64) -> Outcome<()> {
    for task in fs_err::read_dir("/proc/self/task")? {
        let folder = task?.path();
        let name = fs_err::read_to_string(folder.join("comm"))?.trim().to_owned();
        if !name.starts_with("forkful-log") {
            continue;
        }
        let stat = fs_err::read_to_string(folder.join("stat"))?;
        // After the name, which may hold anything but ends with the last `)`: state is the first field.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).map_or(Ok(0.0), |field| field.parse::<f64>());
        let (user, system) = (ticks(11)? / TICKS_PER_SECOND, ticks(12)? / TICKS_PER_SECOND);
        println!(
            "{:>12.1} % of a core in {name} ({user:.2} s user, {system:.2} s system)",
            (user + system) / seconds * 100.0
        );
    }
    println!("{:>12} kB resident, {} kB at most", memory("VmRSS:")?, memory("VmHWM:")?);
    Ok(())
}

/// A line of `/proc/self/status`, in kB.
fn memory(name: &str) -> Outcome<i64> {
    let status = fs_err::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with(name)).ok_or("no such line")?;
    Ok(line.split_whitespace().nth(1).ok_or("no value")?.parse()?)
}
