//! Parsers for values of the command line. Clap prints their errors.

use std::{fs, path::PathBuf, str::FromStr, time::Duration};

use sandbar_core::{
    ByteCount, Error, HeaderRule, NetworkPolicy, Readiness, Replay, RestartPolicy, SecretName,
    signal::is_valid as is_valid_signal,
};

/// Parses a type of `sandbar-core`, and appends its hint to the error.
pub(crate) fn word<T: FromStr<Err = Error>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: Error| explain(&error))
}

fn explain(error: &Error) -> String {
    match error.hint() {
        Some(hint) => format!("{error} — {hint}"),
        None => error.to_string(),
    }
}

/// `KEY=VALUE`.
pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(
            "not a `KEY=VALUE` pair — write a name, `=` and a value, for example `team=red`"
                .to_owned(),
        ),
    }
}

/// `30s`, `5m`, `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let hint = "write a number with a unit: `500ms`, `30s`, `5m`, `1h`";
    let parsed: jiff::SignedDuration = text
        .parse()
        .map_err(|_| format!("not a duration — {hint}"))?;
    let duration =
        Duration::try_from(parsed).map_err(|_| format!("duration is negative — {hint}"))?;
    if duration.is_zero() {
        Err(format!("duration is zero — {hint}"))
    } else {
        Ok(duration)
    }
}

/// `8h`, `30d`, `2w`; a day is 24 hours.
pub(crate) fn long_duration(text: &str) -> Result<Duration, String> {
    let hint = "write a number with a unit: `8h`, `30d`, `2w`";
    let refuse = || format!("not a duration — {hint}");
    let span: jiff::Span = text.parse().map_err(|_| refuse())?;
    let duration = span
        .to_duration(jiff::SpanRelativeTo::days_are_24_hours())
        .map_err(|_| refuse())?;
    let duration =
        Duration::try_from(duration).map_err(|_| format!("duration is negative — {hint}"))?;
    if duration.is_zero() {
        Err(format!("duration is zero — {hint}"))
    } else {
        Ok(duration)
    }
}

/// A size that is not zero: `512M`, `2G`.
pub(crate) fn size(text: &str) -> Result<ByteCount, String> {
    let size: ByteCount = word(text)?;
    if size.get() == 0 {
        Err("size is zero — leave the option out for no limit".to_owned())
    } else {
        Ok(size)
    }
}

/// A positive number of CPUs: `0.5`, `2`.
pub(crate) fn cpus(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(cpus) if cpus.is_finite() && cpus > 0.0 => Ok(cpus),
        _ => Err("not a positive number — write for example `0.5` or `2`".to_owned()),
    }
}

/// A port number that is not 0.
pub(crate) fn port(text: &str) -> Result<u16, String> {
    match text.parse::<u16>() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err("not a port — write a number between 1 and 65535".to_owned()),
    }
}

/// `tcp`, `tcp:8081`, `http:/path`, `http:8081/path`, `log:TEXT`.
pub(crate) fn readiness(text: &str) -> Result<Readiness, String> {
    let hint = "write `tcp`, `http:/health` or `log:listening on`";
    match text.split_once(':') {
        None if text == "tcp" => Ok(Readiness::Tcp { port: None }),
        None if text == "none" => Ok(Readiness::None),
        Some(("tcp", number)) => Ok(Readiness::Tcp {
            port: Some(port(number)?),
        }),
        Some(("http", target)) => {
            let Some(start) = target.find('/') else {
                return Err(format!("probe has no path — {hint}"));
            };
            let (number, path) = target.split_at(start);
            let port = if number.is_empty() {
                None
            } else {
                Some(port(number)?)
            };
            Ok(Readiness::Http {
                port,
                path: path.to_owned(),
            })
        }
        Some(("log", text)) if !text.is_empty() => Ok(Readiness::Log {
            text: text.to_owned(),
        }),
        _ => Err(format!("not a readiness probe — {hint}")),
    }
}

/// `none`, `tail`, `all`.
pub(crate) fn replay(text: &str) -> Result<Replay, String> {
    match text {
        "none" => Ok(Replay::None),
        "tail" => Ok(Replay::Tail),
        "all" => Ok(Replay::All),
        _ => Err("not a part of the output — write `none`, `tail` or `all`".to_owned()),
    }
}

/// `no`, `on-failure`, `on-failure:3`, `always`.
pub(crate) fn restart_policy(text: &str) -> Result<RestartPolicy, String> {
    let refuse =
        || "not a restart policy — write `no`, `on-failure`, `on-failure:3` or `always`".to_owned();
    match text.split_once(':') {
        None if text == "no" => Ok(RestartPolicy::Never),
        None if text == "always" => Ok(RestartPolicy::Always),
        None if text == "on-failure" => Ok(RestartPolicy::OnFailure { at_most: u32::MAX }),
        Some(("on-failure", times)) => times
            .parse()
            .map(|at_most| RestartPolicy::OnFailure { at_most })
            .map_err(|_| refuse()),
        _ => Err(refuse()),
    }
}

/// Signals that can be given by name.
const SIGNALS: [(&str, i32); 16] = [
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ABRT", libc::SIGABRT),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("CHLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("WINCH", libc::SIGWINCH),
];

/// Returns the names of signals without `SIG`.
pub(crate) fn signal_names() -> [&'static str; SIGNALS.len()] {
    SIGNALS.map(|(name, _)| name)
}

/// A signal, by name or number: `TERM`, `SIGTERM`, `15`.
pub(crate) fn signal(text: &str) -> Result<i32, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let named = SIGNALS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, number)| *number);
    let numbered = text.parse().ok().filter(|number| is_valid_signal(*number));
    named
        .or(numbered)
        .ok_or_else(|| "not a signal — write `TERM`, `KILL`, `HUP` or a number".to_owned())
}

/// A network policy: one of its short forms, or `@FILE` with a policy in JSON.
pub(crate) fn network(text: &str) -> Result<NetworkPolicy, String> {
    let Some(path) = text.strip_prefix('@') else {
        return word(text).map_err(|error| error + ", or `@FILE` with a policy in JSON");
    };
    let json =
        fs::read_to_string(path).map_err(|error| format!("could not read `{path}`: {error}"))?;
    let policy: NetworkPolicy = serde_json::from_str(&json)
        .map_err(|error| format!("`{path}` is not a network policy: {error}"))?;
    policy.validate().map_err(|error| explain(&error))?;
    Ok(policy)
}

/// `HOST[:PORT] HEADER: TEXT WITH {SECRET}`.
pub(crate) fn injection(text: &str) -> Result<HeaderRule, String> {
    let hint = "write `api.example.com Authorization: Bearer {my-key}`";
    let Some((destination, rest)) = text.trim().split_once(char::is_whitespace) else {
        return Err(format!("no header after the host — {hint}"));
    };
    let (host, port) = match destination.split_once(':') {
        Some((host, number)) => (host, Some(port(number)?)),
        None => (destination, None),
    };
    let Some((header, value)) = rest.split_once(':') else {
        return Err(format!("no `:` after the header — {hint}"));
    };
    let value = value.trim();
    let named = value
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    let Some((before, (secret, after))) = named else {
        return Err(format!(
            "no `{{SECRET}}` in the value of the header — {hint}"
        ));
    };
    let format = Some(format!("{before}{{}}{after}")).filter(|format| format != "{}");
    let secret = word::<SecretName>(secret)?;
    let rule = HeaderRule {
        host: word(host)?,
        port,
        header: header.trim().to_owned(),
        secret,
        format,
    };
    rule.validate().map_err(|error| explain(&error))?;
    Ok(rule)
}

/// Value of `run -v`: a directory to copy and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopiedDirectory {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
}

/// `DIR:/path/in/sandbox`.
pub(crate) fn copied_directory(text: &str) -> Result<CopiedDirectory, String> {
    let hint = "write `DIR:/workspace`";
    let Some((source, target)) = text.rsplit_once(':') else {
        return Err(format!("no `:` between the two directories — {hint}"));
    };
    if source.is_empty() {
        return Err(format!("directory to copy from is empty — {hint}"));
    }
    if !target.starts_with('/') {
        return Err(format!(
            "`{}` is not an absolute path in the sandbox — {hint}",
            target.escape_debug()
        ));
    }
    Ok(CopiedDirectory {
        source: source.into(),
        target: target.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_with_units_parse() {
        for (text, milliseconds) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("1m30s", 90_000),
        ] {
            assert_eq!(
                duration(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for bad in ["", "30", "0s", "-5s", "soon"] {
            assert!(duration(bad).unwrap_err().contains("— write"), "{bad}");
        }
    }

    #[test]
    fn readiness_probes_parse() {
        let http = |port, path: &str| Readiness::Http {
            port,
            path: path.to_owned(),
        };
        for (text, probe) in [
            ("tcp", Readiness::Tcp { port: None }),
            ("tcp:8081", Readiness::Tcp { port: Some(8081) }),
            ("http:/", http(None, "/")),
            ("http:8081/health?a=b:c", http(Some(8081), "/health?a=b:c")),
            (
                "log:listening on: port",
                Readiness::Log {
                    text: "listening on: port".to_owned(),
                },
            ),
        ] {
            assert_eq!(readiness(text), Ok(probe), "{text}");
        }
        for bad in [
            "",
            "udp",
            "tcp:",
            "tcp:0",
            "tcp:65536",
            "http",
            "http:",
            "http:health",
            "http:x/",
            "log:",
            "log",
        ] {
            assert!(readiness(bad).unwrap_err().contains("— write"), "{bad}");
        }
    }

    #[test]
    fn restart_policies_parse() {
        for (text, policy) in [
            ("no", RestartPolicy::Never),
            ("always", RestartPolicy::Always),
            ("on-failure", RestartPolicy::OnFailure { at_most: u32::MAX }),
            ("on-failure:3", RestartPolicy::OnFailure { at_most: 3 }),
        ] {
            assert_eq!(restart_policy(text), Ok(policy), "{text}");
        }
        for bad in [
            "",
            "yes",
            "on-failure:",
            "on-failure:-1",
            "on-failure:many",
            "always:3",
        ] {
            assert!(
                restart_policy(bad).unwrap_err().contains("— write"),
                "{bad}"
            );
        }
    }

    #[test]
    fn signals_parse_by_name_and_number() {
        for text in ["TERM", "SIGTERM", "sigterm", "term", "15"] {
            assert_eq!(signal(text), Ok(15), "{text}");
        }
        assert_eq!(signal("31"), Ok(31));
        for bad in ["", "0", "32", "-9", "SIG", "SIGNOTHING"] {
            assert!(signal(bad).unwrap_err().contains("— write"), "{bad}");
        }
    }

    #[test]
    fn key_value_pair_needs_a_key_and_may_hold_equal_signs() {
        assert_eq!(key_value("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert_eq!(key_value("A="), Ok(("A".to_owned(), String::new())));
        assert!(key_value("=x").is_err());
        assert!(key_value("x").is_err());
    }

    #[test]
    fn injection_rules_parse() {
        let rule = injection("api.example:8443 Authorization: Bearer {my-key} !").unwrap();
        assert_eq!(
            (rule.host.to_string().as_str(), rule.port),
            ("api.example", Some(8443))
        );
        assert_eq!(
            (rule.header.as_str(), rule.secret.as_str()),
            ("Authorization", "my-key")
        );
        assert_eq!(rule.format.as_deref(), Some("Bearer {} !"));
        assert_eq!(injection("*.example X-Api-Key:{k}").unwrap().format, None);
        for bad in [
            "",
            "api.example",
            "api.example Authorization",
            "api.example Authorization: Bearer",
            "api.example Authorization: {",
            "api.example Authorization: {a b}",
            "api.example Authorization: {}",
            "api.example Authorization: {a}{}",
            "api.example Host: {a}",
            "api.example:0 X: {a}",
            "http://api.example X: {a}",
            "10.0.0.1 X: {a}",
        ] {
            assert!(injection(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn network_policy_is_a_short_form_or_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("policy.json");
        let given = format!("@{}", path.display());
        assert!(network(&given).unwrap_err().contains("could not read"));
        fs::write(
            &path,
            r#"{"allow_list": ["example.com:443"], "limits": {"bytes_per_second": "10M"}}"#,
        )
        .unwrap();
        let policy = network(&given).unwrap();
        assert_eq!(
            policy.to_string(),
            network("allow=example.com:443").unwrap().to_string()
        );
        assert_eq!(policy.limits.bytes_per_second, Some(ByteCount::mib(10)));
        for (bad, part) in [
            (r#"{"alow_list": []}"#, "alow_list"),
            (r#"{"allow_list": ["http://x"]}"#, "scheme"),
            (r#"{"limits": {"connections": 0}}"#, "— leave it out"),
            ("", "not a network policy"),
        ] {
            fs::write(&path, bad).unwrap();
            assert!(
                network(&given).unwrap_err().contains(part),
                "{bad}: {:?}",
                network(&given)
            );
        }
        assert!(network("some").unwrap_err().contains("@FILE"));
    }

    #[test]
    fn copied_directory_needs_an_absolute_target() {
        let good = copied_directory("./src:/workspace").unwrap();
        assert_eq!(
            (good.source, good.target),
            ("./src".into(), "/workspace".into())
        );
        for bad in ["src", ":/workspace", "src:workspace", "src:"] {
            assert!(copied_directory(bad).is_err(), "{bad}");
        }
    }
}
