//! Arguments and environment of a command: the defaults of the runtime and what was given, without
//! the host's environment.

use std::{collections::BTreeMap, ffi::CString};

use sandbar_core::{Error, Result, UserAccount};

const DEFAULTS: [(&str, &str); 2] = [
    (
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ),
    ("HOME", "/root"),
];

/// Arguments of `execve` as C strings.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) argv: Vec<CString>,
    pub(crate) envp: Vec<CString>,
    /// Paths to try, in order.
    pub(crate) candidates: Vec<CString>,
}

impl Invocation {
    /// Builds the invocation. `user` sets the defaults of `HOME`, `USER` and `LOGNAME`.
    pub(crate) fn prepare(
        argv: &[String],
        env: &BTreeMap<String, String>,
        user: Option<&UserAccount>,
    ) -> Result<Self> {
        let program = argv
            .first()
            .filter(|program| !program.is_empty())
            .ok_or_else(|| {
                Error::invalid("argv", "command is empty")
                    .with_hint("give a program and its arguments")
            })?;
        let mut variables: BTreeMap<&str, &str> = DEFAULTS.into_iter().collect();
        if let Some(UserAccount { name, home, .. }) = user {
            variables.extend([("HOME", home.as_str()), ("USER", name), ("LOGNAME", name)]);
        }
        variables.extend(
            env.iter()
                .map(|(name, value)| (name.as_str(), value.as_str())),
        );
        if let Some(bad) = variables
            .keys()
            .find(|name| name.is_empty() || name.contains('='))
        {
            return Err(Error::invalid(
                "env",
                format!("variable name `{}` is not valid", bad.escape_debug()),
            )
            .with_hint("use a name that is not empty and has no `=`"));
        }
        let paths: Vec<String> = if program.contains('/') {
            vec![program.clone()]
        } else {
            let path = variables.get("PATH").copied().unwrap_or_default();
            path.split(':')
                .map(|directory| {
                    if directory.is_empty() {
                        format!("./{program}")
                    } else {
                        format!("{directory}/{program}")
                    }
                })
                .collect()
        };
        Ok(Self {
            argv: argv
                .iter()
                .map(|argument| c_string("argv", argument))
                .collect::<Result<_>>()?,
            envp: variables
                .iter()
                .map(|(name, value)| c_string("env", &format!("{name}={value}")))
                .collect::<Result<_>>()?,
            candidates: paths
                .iter()
                .map(|path| c_string("argv", path))
                .collect::<Result<_>>()?,
        })
    }
}

/// Converts to a C string. The error names the field that contains a NUL byte.
pub(crate) fn c_string(field: &'static str, value: &str) -> Result<CString> {
    CString::new(value).map_err(|_| {
        Error::invalid(
            field,
            format!("`{}` contains a NUL byte", value.escape_debug()),
        )
        .with_hint("remove the NUL byte")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(list: &[CString]) -> Vec<&str> {
        list.iter().map(|text| text.to_str().unwrap()).collect()
    }

    #[test]
    fn program_without_slash_is_searched_in_its_own_path() {
        let env = BTreeMap::from([("PATH".to_owned(), "/a::/b".to_owned())]);
        let invocation = Invocation::prepare(&["tool".to_owned()], &env, None).unwrap();
        assert_eq!(
            strings(&invocation.candidates),
            ["/a/tool", "./tool", "/b/tool"]
        );
        let direct = Invocation::prepare(&["./tool".to_owned()], &env, None).unwrap();
        assert_eq!(strings(&direct.candidates), ["./tool"]);
    }

    #[test]
    fn home_and_user_defaults_yield_to_given_variables() {
        let user = UserAccount::find("user", "user:x:1000:1000::/home/user:/bin/bash", "").unwrap();
        let env = BTreeMap::from([("LOGNAME".to_owned(), "other".to_owned())]);
        let invocation = Invocation::prepare(&["/bin/env".to_owned()], &env, Some(&user)).unwrap();
        let shown = strings(&invocation.envp);
        assert_eq!(shown[..2], ["HOME=/home/user", "LOGNAME=other"]);
        assert_eq!(shown[3], "USER=user");
    }

    #[test]
    fn invalid_command_or_variable_is_rejected_by_field() {
        let none = BTreeMap::new();
        assert_eq!(
            Invocation::prepare(&[], &none, None).unwrap_err().field(),
            Some("argv")
        );
        assert_eq!(
            Invocation::prepare(&[String::new()], &none, None)
                .unwrap_err()
                .field(),
            Some("argv")
        );
        assert_eq!(
            Invocation::prepare(&["a\0b".to_owned()], &none, None)
                .unwrap_err()
                .field(),
            Some("argv")
        );
        let env = BTreeMap::from([("A=B".to_owned(), String::new())]);
        assert_eq!(
            Invocation::prepare(&["x".to_owned()], &env, None)
                .unwrap_err()
                .field(),
            Some("env")
        );
    }
}
