//! The environment of a command: the defaults of the runtime, what it was given, and nothing of the host's.

use std::{collections::BTreeMap, ffi::CString};

use sandbar_core::{Error, Result, UserAccount};

const DEFAULTS: [(&str, &str); 2] =
    [("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), ("HOME", "/root")];

/// Everything `exec` needs as C strings, made before the fork.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) argv: Vec<CString>,
    pub(crate) envp: Vec<CString>,
    /// Paths to try, in order.
    pub(crate) candidates: Vec<CString>,
}

impl Invocation {
    /// `user` is who it runs as, where that is somebody in particular.
    pub(crate) fn prepare(argv: &[String], env: &BTreeMap<String, String>, user: Option<&UserAccount>) -> Result<Self> {
        let program = argv.first().filter(|program| !program.is_empty()).ok_or_else(|| {
            Error::invalid("argv", "the command is empty").with_hint("give a program and its arguments")
        })?;
        let mut variables: BTreeMap<&str, &str> = DEFAULTS.into_iter().collect();
        if let Some(UserAccount { name, home, .. }) = user {
            variables.extend([("HOME", home.as_str()), ("USER", name), ("LOGNAME", name)]);
        }
        variables.extend(env.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        if let Some(bad) = variables.keys().find(|name| name.is_empty() || name.contains('=')) {
            return Err(Error::invalid("env", format!("variable `{}` is not usable", bad.escape_debug()))
                .with_hint("names are not empty and hold no `=`"));
        }
        let paths: Vec<String> = if program.contains('/') {
            vec![program.clone()]
        } else {
            let path = variables.get("PATH").copied().unwrap_or_default();
            path.split(':')
                .map(
                    |directory| {
                        if directory.is_empty() { format!("./{program}") } else { format!("{directory}/{program}") }
                    },
                )
                .collect()
        };
        Ok(Self {
            argv: argv.iter().map(|argument| text("argv", argument)).collect::<Result<_>>()?,
            envp: variables
                .iter()
                .map(|(name, value)| text("env", &format!("{name}={value}")))
                .collect::<Result<_>>()?,
            candidates: paths.iter().map(|path| text("argv", path)).collect::<Result<_>>()?,
        })
    }
}

/// A C string, or the complaint that names where the NUL byte was.
pub(crate) fn text(field: &'static str, value: &str) -> Result<CString> {
    CString::new(value).map_err(|_| {
        Error::invalid(field, format!("`{}` contains a NUL byte", value.escape_debug()))
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
    fn a_program_without_a_slash_is_searched_in_the_path_it_will_see() {
        let env = BTreeMap::from([("PATH".to_owned(), "/a::/b".to_owned())]);
        let invocation = Invocation::prepare(&["tool".to_owned()], &env, None).unwrap();
        assert_eq!(strings(&invocation.candidates), ["/a/tool", "./tool", "/b/tool"]);
        let direct = Invocation::prepare(&["./tool".to_owned()], &env, None).unwrap();
        assert_eq!(strings(&direct.candidates), ["./tool"]);
    }

    #[test]
    fn home_and_name_follow_the_user_and_yield_to_what_was_given() {
        let user = UserAccount::find("user", "user:x:1000:1000::/home/user:/bin/bash", "").unwrap();
        let env = BTreeMap::from([("LOGNAME".to_owned(), "other".to_owned())]);
        let invocation = Invocation::prepare(&["/bin/env".to_owned()], &env, Some(&user)).unwrap();
        let shown = strings(&invocation.envp);
        assert_eq!(shown[..2], ["HOME=/home/user", "LOGNAME=other"]);
        assert_eq!(shown[3], "USER=user");
    }

    #[test]
    fn unusable_commands_and_variables_are_refused_and_named() {
        let none = BTreeMap::new();
        assert_eq!(Invocation::prepare(&[], &none, None).unwrap_err().field(), Some("argv"));
        assert_eq!(Invocation::prepare(&[String::new()], &none, None).unwrap_err().field(), Some("argv"));
        assert_eq!(Invocation::prepare(&["a\0b".to_owned()], &none, None).unwrap_err().field(), Some("argv"));
        let env = BTreeMap::from([("A=B".to_owned(), String::new())]);
        assert_eq!(Invocation::prepare(&["x".to_owned()], &env, None).unwrap_err().field(), Some("env"));
    }
}
