//! The macros that define tools and choices.

/// Defines a tool: its name, tier, description and parameters.
///
/// A parameter without a default is required, unless its type is an `Option`. Doc comments become
/// descriptions.
macro_rules! tool {
    (
        $(#[doc = $about:expr])+
        $name:literal, $tier:ident;
        $visibility:vis struct $tool:ident {
            $( $(#[doc = $doc:expr])+ $field:ident : $kind:ty $(= $default:expr)? ,)*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug)]
        $visibility struct $tool {
            $( $(#[doc = $doc])+ $visibility $field: $kind, )*
        }

        impl $crate::params::Tool for $tool {
            const NAME: &'static str = $name;
            const TIER: sandbar_core::ToolTier = sandbar_core::ToolTier::$tier;

            fn about() -> String {
                $crate::params::prose(&[$($about),+])
            }

            fn schema() -> serde_json::Value {
                #[allow(unused_mut, reason = "a tool may have no parameters, or none that is required")]
                let (mut properties, mut required) = (serde_json::Map::new(), Vec::<&str>::new());
                $({
                    let mut schema = <$kind as $crate::params::ParamKind>::schema();
                    schema.insert("description".into(), $crate::params::prose(&[$($doc),+]).into());
                    let default: Option<$kind> = $crate::params::tool!(@default $($default)?);
                    match default {
                        Some(default) => {
                            schema.insert("default".into(), $crate::params::ParamKind::show(&default));
                        }
                        None if <$kind as $crate::params::ParamKind>::absent().is_none() => {
                            required.push($crate::params::bare(stringify!($field)));
                        }
                        None => {}
                    }
                    properties.insert($crate::params::bare(stringify!($field)).into(), schema.into());
                })*
                serde_json::json!({
                    "type": "object",
                    "properties": properties,
                    "required": required,
                    "additionalProperties": false,
                })
            }

            fn read(mut params: sandbar_core::ToolParams) -> sandbar_core::Result<Self> {
                $crate::params::refuse_unknown($name, &params, &[$($crate::params::bare(stringify!($field))),*])?;
                $(
                    let default: Option<$kind> = $crate::params::tool!(@default $($default)?);
                    let $field: $kind =
                        $crate::params::take(&mut params, $crate::params::bare(stringify!($field)), default)?;
                )*
                Ok(Self { $($field),* })
            }
        }
    };
    (@default) => { None };
    (@default $default:expr) => { Some($default) };
}

/// Defines a parameter type that is one of a few words.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $choice:ident { $( $(#[$variant_meta:meta])* $variant:ident = $word:literal $(| $alias:literal)* ,)+ }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $choice { $( $(#[$variant_meta])* $variant, )+ }

        impl $crate::params::ParamKind for $choice {
            fn schema() -> sandbar_core::ToolParams {
                let mut schema = sandbar_core::ToolParams::new();
                schema.insert("type".into(), "string".into());
                schema.insert("enum".into(), serde_json::json!([$($word),+]));
                schema
            }

            fn read(value: serde_json::Value) -> Result<Self, String> {
                let text = <String as $crate::params::ParamKind>::read(value)?;
                match text.as_str() {
                    $( $word $(| $alias)* => Ok(Self::$variant), )+
                    other => Err(format!(
                        "is `{}`, and must be one of {}",
                        other.escape_debug(),
                        [$($word),+].join(", "),
                    )),
                }
            }

            fn show(&self) -> serde_json::Value {
                match self { $( Self::$variant => $word.into(), )+ }
            }
        }
    };
}

pub(crate) use {choice, tool};
