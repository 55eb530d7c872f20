//! Converts options to a plan.

use std::path::Path;
use std::time::Duration;

use forkful_core::pages::Page;
use forkful_load::{
    Arrivals, BasicAuth, BodyCheck, Expect, HttpVersion, Load, Order, Plan, Request, Reuse, Stop, Think,
    Threads, TlsOptions, Url, har,
};

use super::args::{BenchArgs, BenchRequestArgs};
use crate::exit::{Exit, Failure};
use crate::output;

/// Default connections.
const CONNECTIONS: usize = 50;

/// Default duration if neither requests nor a duration is given.
const DURATION: Duration = Duration::from_secs(10);

/// Default maximum connections of an open loop.
const CONNECTIONS_MAX: usize = 10_000;

/// With a rate: default maximum messages under way on a WebSocket.
const MESSAGES_UNDER_WAY: usize = 1_000;

/// Default message for a WebSocket.
const MESSAGE: &str = "hello";

/// Maximum requests in a file.
const REQUESTS_MAX: usize = 10_000;

/// The plan for the options.
pub(super) fn of(args: &BenchArgs, urls: &[String]) -> Result<Plan, Failure> {
    let mut plan = Plan::of(requests(args, urls)?);
    let weighted =
        !args.request.weights.is_empty() || plan.requests.iter().any(|request| request.weight != 1);
    plan.order = if weighted { Order::Weighted { seed: args.load.seed } } else { Order::InOrder };
    plan.http = protocol(args, &plan)?;
    plan.warmup = args.load.warmup;
    plan.ramp = args.load.ramp;
    plan.timeout = args.load.timeout;
    plan.drain = plan.drain.min(plan.timeout);
    plan.errors_max = args.load.max_errors;
    plan.threads = args.load.threads.map_or(Threads::Auto, Threads::Count);
    let connection = &args.connection;
    plan.reuse = match (connection.no_keepalive, connection.reconnect) {
        (true, _) => Reuse::Never,
        (false, Some(requests)) => Reuse::Requests(requests),
        (false, None) => Reuse::Always,
    };
    plan.pipelining = connection.streams.unwrap_or(connection.pipelining);
    plan.gathering = !connection.no_gathering;
    load(&mut plan, args);
    plan.unix_socket.clone_from(&connection.unix_socket);
    plan.tls = TlsOptions {
        insecure: connection.insecure,
        authorities: connection.cacert.clone(),
        client_certificate: connection.cert.clone(),
        client_key: connection.key.clone(),
        server_name: connection.server_name.clone(),
    };
    plan.expect = expect(&args.request)?;
    plan.worker_header.clone_from(&args.output.worker_header);
    Ok(plan)
}

/// The protocol, from the URL and the options.
fn protocol(args: &BenchArgs, plan: &Plan) -> Result<HttpVersion, Failure> {
    let connection = &args.connection;
    let is_socket = plan.requests.iter().any(|request| request.url.socket);
    let wrong = |text: &str| Err(Failure::new(Exit::WrongUse, text.to_owned()));
    match (is_socket, args.request.sse) {
        (true, _) if connection.http2 || connection.http10 => {
            wrong("WebSockets are opened over HTTP/1.1: leave out --http2 and --http10")
        }
        (true, true) => wrong("--sse is for http:// and https:// URLs"),
        (true, _) if args.request.method.is_some() => {
            wrong("WebSockets are opened with GET: leave out --method")
        }
        (true, false) => Ok(HttpVersion::WebSocket),
        (false, _) if args.request.message.is_some() => wrong("--message is for ws:// and wss:// URLs"),
        (false, true) => Ok(HttpVersion::EventStream),
        (false, false) if connection.http2 => Ok(HttpVersion::Http2),
        (false, false) if connection.http10 => Ok(HttpVersion::Http10),
        (false, false) => Ok(HttpVersion::Http11),
    }
}

fn load(plan: &mut Plan, args: &BenchArgs) {
    let load = &args.load;
    let default = load.requests.map_or(CONNECTIONS, |requests| CONNECTIONS.min(requests.max(1) as usize));
    plan.connections = load.connections.unwrap_or(default);
    plan.stop = match load.requests {
        Some(requests) => Stop::Requests(requests),
        None => Stop::Duration(load.duration.unwrap_or(DURATION)),
    };
    // With a number of requests: whichever ends first.
    plan.time_limit = load.requests.and(load.duration);
    match load.rate {
        Some(rate) => open_loop(plan, rate, args),
        None => plan.load = Load::Closed { think: load.think.unwrap_or(Think::None) },
    }
}

/// Changes the plan to an open loop at this rate. WebSocket messages are sent on time on the existing
/// connections, so that the requested number of users stays connected.
pub(super) fn open_loop(plan: &mut Plan, rate: f64, args: &BenchArgs) {
    let load = &args.load;
    let keeps_sockets = plan.http == HttpVersion::WebSocket && plan.reuse != Reuse::Never;
    if keeps_sockets && plan.pipelining == 1 {
        plan.pipelining = MESSAGES_UNDER_WAY;
    }
    let connections_max =
        if keeps_sockets { plan.connections } else { CONNECTIONS_MAX.max(plan.connections) };
    plan.load = Load::Open {
        rate,
        connections_max: load.connections_max.unwrap_or(connections_max),
        arrivals: if load.poisson { Arrivals::Poisson { seed: load.seed } } else { Arrivals::Even },
    };
}

fn requests(args: &BenchArgs, urls: &[String]) -> Result<Vec<Request>, Failure> {
    let options = &args.request;
    let template = template(options)?;
    let mut requests = Vec::new();
    if let Some(path) = &options.har {
        requests = recorded(path, &template, urls)?;
    }
    // With a recording, a URL only names the server.
    let urls = if options.har.is_some() { &[] } else { urls };
    for url in urls {
        requests.push(with_url(&template, url)?);
    }
    if let Some(path) = &options.urls_file {
        let text = fs_err::read_to_string(path).map_err(|error| Failure::new(Exit::WrongUse, error))?;
        // Editors of Windows begin a file with a mark of its encoding.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let place = format!("{}:{}", path.display(), number + 1);
            requests.push(of_line(&template, line, &place)?);
        }
    }
    if requests.is_empty() {
        return Err(Failure::new(Exit::WrongUse, "there is no URL")
            .hint("the usage is `forkful bench [OPTIONS] URL`; --help says more"));
    }
    if requests.len() > REQUESTS_MAX {
        let error = format!("there are {} requests; the maximum is {REQUESTS_MAX}", requests.len());
        return Err(Failure::new(Exit::WrongUse, error).hint("`{id}` in a URL is the number of the request"));
    }
    weigh(&mut requests, &options.weights)?;
    Ok(requests)
}

/// The largest recording that is read: an hour of a busy page, with answers.
const HAR_BYTES_MAX: u64 = 256 << 20;

/// The requests of a HAR file, with the additions from the command line.
fn recorded(path: &Path, template: &Request, urls: &[String]) -> Result<Vec<Request>, Failure> {
    let ([] | [_]) = urls else {
        return Err(Failure::new(Exit::WrongUse, "--har takes one URL at most, the server to send to"));
    };
    let to = urls.first().map(|url| Url::parse(url)).transpose()?;
    let length = fs_err::metadata(path).map_err(|error| Failure::new(Exit::WrongUse, error))?.len();
    if length > HAR_BYTES_MAX {
        let error = format!("{} has {length} bytes; the maximum is {HAR_BYTES_MAX}", path.display());
        return Err(Failure::new(Exit::WrongUse, error).hint("record it without the content of answers"));
    }
    let recording = har::read(&read(path)?, to.as_ref()).map_err(|error| {
        let context = format!("{} cannot be used", path.display());
        Failure::caused(Exit::WrongUse, anyhow::Error::new(error).context(context))
            .hint("the network panel of a browser saves one: `Save all as HAR`")
            .see(Page::BenchRequests)
    })?;
    let left_out =
        [(recording.elsewhere, "to other servers"), (recording.unusable, "that are not plain HTTP")];
    for (count, what) in left_out.into_iter().filter(|(count, _)| *count > 0) {
        output::note(&format!(
            "{} {what} of {} are left out",
            forkful_core::words::count(count, "request"),
            path.display()
        ));
    }
    let added = |mut request: Request| {
        let is_replaced =
            |name: &str| template.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        request.headers.retain(|(name, _)| !is_replaced(name));
        request.headers.extend(template.headers.iter().cloned());
        request.basic_auth.clone_from(&template.basic_auth);
        request
    };
    Ok(recording.requests.into_iter().map(added).collect())
}

fn weigh(requests: &mut [Request], weights: &[u32]) -> Result<(), Failure> {
    if weights.is_empty() {
        return Ok(());
    }
    if weights.len() != requests.len() {
        let error = format!("--weights has {} numbers for {} URLs", weights.len(), requests.len());
        return Err(Failure::new(Exit::WrongUse, error));
    }
    for (request, weight) in requests.iter_mut().zip(weights) {
        request.weight = *weight;
    }
    Ok(())
}

/// The common parts of all requests.
fn template(options: &BenchRequestArgs) -> Result<Request, Failure> {
    let body = match (options.message.as_ref().or(options.body.as_ref()), &options.body_file) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(path)) => read(path)?,
        (None, None) => Vec::new(),
    };
    let default = if body.is_empty() { "GET" } else { "POST" };
    let basic_auth = options.user.as_ref().map(|text| BasicAuth::of(text));
    Ok(Request {
        method: options.method.clone().unwrap_or_else(|| default.to_owned()),
        url: Url::parse("http://unused/")?,
        headers: options.header.iter().map(|text| header(text)).collect::<Result<_, _>>()?,
        body,
        weight: 1,
        counter: !options.literal,
        basic_auth,
    })
}

fn header(text: &str) -> Result<(String, String), Failure> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(Failure::new(Exit::WrongUse, format!("--header {text:?} is not `Name: value`"))),
    }
}

fn with_url(template: &Request, url: &str) -> Result<Request, Failure> {
    let mut request = template.clone();
    request.url = Url::parse_with_sockets(url)?;
    if request.url.socket {
        "GET".clone_into(&mut request.method);
        if request.body.is_empty() {
            request.body = MESSAGE.as_bytes().to_vec();
        }
    }
    if let (None, Some((user, password))) = (&request.basic_auth, &request.url.userinfo) {
        request.basic_auth = Some(BasicAuth { user: user.clone(), password: password.clone() });
    }
    Ok(request)
}

/// `[WEIGHT] [METHOD] URL [BODY|@FILE]`.
fn of_line(template: &Request, line: &str, place: &str) -> Result<Request, Failure> {
    let bad = |reason: String| {
        Failure::new(Exit::WrongUse, format!("{place}: {reason}"))
            .hint("a line is [WEIGHT] [METHOD] URL [BODY|@FILE]")
            .see(Page::BenchRequests)
    };
    let mut rest = line;
    let mut next = || {
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        rest = after.trim_start();
        word.to_owned()
    };
    let mut word = next();
    let weight = match word.parse::<u32>() {
        Ok(weight) => {
            word = next();
            weight
        }
        Err(_) => 1,
    };
    let is_method = !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase());
    let method = is_method.then(|| std::mem::replace(&mut word, next()));
    if word.is_empty() {
        return Err(bad("there is no URL".to_owned()));
    }
    let mut request = with_url(template, &word).map_err(|failure| bad(failure.error.to_string()))?;
    request.weight = weight;
    if let Some(file) = rest.strip_prefix('@') {
        request.body = read(Path::new(file))?;
    } else if !rest.is_empty() {
        request.body = rest.as_bytes().to_vec();
    }
    match method {
        Some(method) => request.method = method,
        None if !rest.is_empty() && request.method == "GET" && !request.url.socket => {
            "POST".clone_into(&mut request.method);
        }
        None => {}
    }
    Ok(request)
}

fn expect(options: &BenchRequestArgs) -> Result<Expect, Failure> {
    let body = match (&options.expect_body, &options.expect_body_file) {
        (Some(text), _) => Some(BodyCheck::Contains(text.clone().into_bytes())),
        (None, Some(path)) => Some(BodyCheck::Equals(read(path)?)),
        (None, None) => None,
    };
    Ok(Expect { statuses: options.expect_status.clone(), body, ..Expect::default() })
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs_err::read(path).map_err(|error| Failure::new(Exit::WrongUse, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &str) -> Result<Request, String> {
        let mut template = Request::get("http://h/").unwrap();
        template.headers = vec![("A".to_owned(), "b".to_owned())];
        of_line(&template, line, "f:1").map_err(|failure| failure.error.to_string())
    }

    #[test]
    fn lines_have_a_weight_a_method_and_a_body_or_none_of_them() {
        let told = |line: &str| {
            let request = request(line).unwrap();
            let body = String::from_utf8(request.body).unwrap();
            format!("{} {} {} [{body}]", request.weight, request.method, request.url)
        };
        assert_eq!(told("http://h/a"), "1 GET http://h/a []");
        assert_eq!(told("9 http://h/a"), "9 GET http://h/a []");
        assert_eq!(told("3 PUT http://h/a  x y"), "3 PUT http://h/a [x y]");
        assert_eq!(told("http://h/a {\"n\":1}"), "1 POST http://h/a [{\"n\":1}]");
        assert_eq!(request("http://h/a").unwrap().headers.len(), 1);
    }

    #[test]
    fn a_bad_line_names_its_place() {
        assert_eq!(request("9 GET").unwrap_err(), "f:1: there is no URL");
        assert!(request("ftp://h/").unwrap_err().starts_with("f:1: `ftp://h/` is not a valid URL"));
    }

    #[test]
    fn users_of_a_url_are_its_basic_authentication() {
        let auth = request("http://me:secret@h/").unwrap().basic_auth.unwrap();
        assert_eq!((auth.user.as_str(), auth.password.as_str()), ("me", "secret"));
    }
}
