//! Rendering of the screen as rows.

use sandbar_core::{ByteCount, HealthStatus, SessionState, TerminalSize};
use unicode_width::UnicodeWidthStr;

use super::{
    details::details,
    entry::{Column, Entry, percent},
    sample::Observed,
    view::{Page, View},
};
use crate::{
    terminal::{
        output::printable,
        screen::{Look, Row},
    },
    view::brief,
};

/// Rows above the list: three about the host, one for errors, one with the headings.
const HEAD: usize = 5;
/// Rows below it.
const FOOT: usize = 1;

/// Returns how many sessions fit on the screen.
pub(crate) fn list_rows(size: TerminalSize) -> usize {
    usize::from(size.rows).saturating_sub(HEAD + FOOT)
}

pub(crate) fn rows(view: &mut View, observed: &Observed, size: TerminalSize) -> Vec<Row> {
    let mut rows = head(view, observed);
    match &view.page {
        Page::List => rows.extend(list(view, observed, size)),
        Page::Details(id) => match observed
            .now
            .sessions
            .iter()
            .find(|session| session.id == *id)
        {
            Some(session) => rows.extend(details(session, observed)),
            None => rows.push(Row::of(Look::Bad, format!("{id} is gone"))),
        },
        Page::Help => rows.extend(HELP.lines().map(|line| Row::of(Look::Plain, line))),
    }
    rows.resize(usize::from(size.rows).saturating_sub(FOOT), Row::default());
    rows.push(foot(view));
    rows
}

fn head(view: &View, observed: &Observed) -> Vec<Row> {
    let (health, now) = (&observed.now.health, &observed.now);
    let look = if health.status == HealthStatus::Healthy {
        Look::Good
    } else {
        Look::Bad
    };
    let used = ByteCount(
        health
            .space_total
            .get()
            .saturating_sub(health.space_available.get()),
    );
    let entries = Entry::all(observed);
    let cpu: f64 = entries.iter().filter_map(|entry| entry.cpu).sum();
    let memory: u64 = entries
        .iter()
        .filter_map(Entry::memory)
        .map(ByteCount::get)
        .sum();
    let in_state = |state| {
        now.sessions
            .iter()
            .filter(|session| session.state == state)
            .count()
    };
    let states: Vec<String> = SessionState::ALL
        .into_iter()
        .filter_map(|state| {
            Some(in_state(state))
                .filter(|count| *count > 0)
                .map(|count| format!("{count} {state}"))
        })
        .collect();
    let states = if states.is_empty() {
        String::new()
    } else {
        format!(" ({})", states.join(", "))
    };
    let trouble = match &view.trouble {
        Some(trouble) => Row::of(Look::Bad, trouble.clone()),
        None => Row::of(
            Look::Bad,
            health
                .reasons
                .iter()
                .map(|reason| printable(reason.as_bytes()))
                .collect::<Vec<_>>()
                .join("; "),
        ),
    };
    vec![
        Row::of(Look::Bold, "sandbar top")
            .and(
                Look::Plain,
                format!("  {}  up {}  ", observed.url, brief(health.uptime)),
            )
            .and(look, health.status.as_str()),
        Row::of(
            Look::Plain,
            format!(
                "storage   {} {}, {used} of {} used ({})   runtime {}",
                observed.capabilities.storage,
                health.pool_state,
                health.space_total,
                share_of(used, health.space_total),
                observed.capabilities.runtime
            ),
        ),
        Row::of(
            Look::Plain,
            format!(
                "sessions  {}{states}   commands {}   tool calls {}   CPU {}   memory {}",
                now.sessions.len(),
                health.active_commands,
                health.active_tools,
                percent(cpu),
                ByteCount(memory)
            ),
        ),
        trouble,
    ]
}

fn share_of(part: ByteCount, whole: ByteCount) -> String {
    let percent = (u128::from(part.get()) * 100)
        .checked_div(u128::from(whole.get()))
        .unwrap_or(0);
    format!("{percent}%")
}

fn list(view: &mut View, observed: &Observed, size: TerminalSize) -> Vec<Row> {
    let entries = view.entries(observed);
    let visible = view.list.visible(&entries, list_rows(size));
    let selected = view.list.selected_index(&entries);
    let sort = |column| match (view.list.sort == column, view.list.reversed) {
        (true, false) => "▼",
        (true, true) => "▲",
        (false, _) => "",
    };
    let headings = Column::ALL.map(|column| format!("{}{}", column.heading(), sort(column)));
    let cells: Vec<[String; 8]> = entries[visible.clone()]
        .iter()
        .map(|entry| Column::ALL.map(|column| entry.text(column)))
        .collect();
    let widths: [usize; 8] = std::array::from_fn(|column| {
        // Wide enough that the columns do not move while figures grow.
        let least = if Column::ALL[column].is_figure() {
            8
        } else {
            6
        };
        cells
            .iter()
            .chain([&headings])
            .map(|row| row[column].width())
            .max()
            .unwrap_or(0)
            .max(least)
    });
    let mut rows = vec![Row::of(Look::Bold, line(&headings, &widths))];
    for (index, row) in visible.zip(&cells) {
        let look = if Some(index) == selected {
            Look::Selected
        } else {
            Look::Plain
        };
        rows.push(Row::of(look, line(row, &widths)));
    }
    if entries.is_empty() {
        let nothing = if view.list.filter.is_empty() {
            "no sandboxes; make one with `sandbar new`".to_owned()
        } else {
            format!("nothing matches `{}`", view.list.filter)
        };
        rows.push(Row::of(Look::Dim, nothing));
    }
    rows
}

fn line(cells: &[String; 8], widths: &[usize; 8]) -> String {
    let mut line = String::new();
    for ((cell, width), column) in cells.iter().zip(widths).zip(Column::ALL) {
        let space = " ".repeat(width.saturating_sub(cell.width()));
        if column.is_figure() {
            line.push_str(&space);
            line.push_str(cell);
        } else {
            line.push_str(cell);
            line.push_str(&space);
        }
        line.push_str("  ");
    }
    line
}

fn foot(view: &View) -> Row {
    match &view.page {
        Page::List if view.typing => Row::of(Look::Bold, format!("filter: {}█", view.list.filter))
            .and(Look::Dim, "  enter keeps it, esc clears it"),
        Page::List => {
            let filter = Some(&view.list.filter).filter(|filter| !filter.is_empty());
            let filter = filter
                .map(|filter| format!("filter `{filter}` (esc clears)  "))
                .unwrap_or_default();
            Row::of(Look::Bold, filter).and(
                Look::Dim,
                "q quit  ↑↓ select  enter details  / filter  sort: c CPU m memory d disk p processes a age i id  r reverse  ? help",
            )
        }
        Page::Details(_) | Page::Help => Row::of(Look::Dim, "esc back  Ctrl-C quit"),
    }
}

const HELP: &str = "\
↑ ↓ j k            select a sandbox; PgUp, PgDn, Home and End go further
enter              details of the selected sandbox
/                  filter by id, state, base or label; enter keeps it, esc clears it
c m d p a i s b    sort by CPU, memory, disk, processes, age, id, state, base; again to reverse
r                  reverse the order
space              refresh now
Ctrl-L             redraw the screen
Ctrl-Z             suspend to the shell
q, Ctrl-C          quit

CPU: 100% is one CPU. Memory includes cached file pages. DISK is the space beyond the base.
- means unknown.";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use sandbar_core::{
        RootRights, RuntimeKind, SessionId, SessionInfo, SessionUsage, StorageKind,
    };

    use super::*;
    use crate::terminal::screen::Key;

    fn session(id: &str, memory: u64, disk: u64) -> SessionInfo {
        SessionInfo {
            id: SessionId::new(id).unwrap(),
            state: SessionState::Active,
            base: "host".parse().unwrap(),
            labels: [("team".to_owned(), format!("{id}-team"))].into(),
            storage: StorageKind::Btrfs,
            runtime: RuntimeKind::Native,
            created: Timestamp::now(),
            expires: None,
            on_expiry: sandbar_core::OnExpiry::default(),
            idle_timeout: None,
            quota: None,
            network: None,
            root_rights: RootRights::Bare,
            space_used: ByteCount(disk),
            turn_count: 0,
            snapshot_count: 0,
            parent: None,
            usage: Some(SessionUsage {
                cpu_time: Some(Duration::from_secs(1)),
                memory: Some(ByteCount(memory)),
                processes: Some(1),
            }),
        }
    }

    fn observed() -> Observed {
        let sessions = vec![
            session("a", 10, 3000),
            session("b", 30, 1000),
            session("c", 20, 2000),
        ];
        Observed::for_test(
            sessions,
            &[
                ("b", Duration::from_millis(500)),
                ("c", Duration::from_millis(900)),
            ],
        )
    }

    const SIZE: TerminalSize = TerminalSize {
        rows: 12,
        columns: 200,
    };

    fn screen(view: &mut View, observed: &Observed, size: TerminalSize) -> Vec<String> {
        rows(view, observed, size)
            .iter()
            .map(|row| row.render(size.columns.into()))
            .collect()
    }

    fn ids(view: &mut View, observed: &Observed) -> String {
        let listed = screen(view, observed, SIZE);
        listed[HEAD..]
            .iter()
            .filter_map(|row| {
                row.trim_start_matches("\x1b[7m")
                    .split_once(' ')?
                    .0
                    .parse()
                    .ok()
            })
            .filter(|word: &String| word.len() == 1)
            .collect()
    }

    fn press(view: &mut View, observed: &Observed, key: char) {
        view.press(Key::Character(key), observed, 5);
    }

    #[test]
    fn head_shows_the_host_and_list_shows_usage() {
        let (mut view, observed) = (View::new(Column::Cpu), observed());
        let shown = screen(&mut view, &observed, SIZE).join("\n");
        for part in [
            "http://127.0.0.1:9100",
            "healthy",
            "btrfs ONLINE, 1 GiB of 4 GiB used (25%)",
            "runtime native",
            "sessions  3 (3 active)",
            "commands 2",
            "CPU 140%",
            "CPU▼",
            "90%",
            "50%",
            "20 B",
        ] {
            assert!(shown.contains(part), "{part:?} is not in {shown}");
        }
    }

    #[test]
    fn keys_sort_reverse_and_filter_the_list() {
        let (mut view, observed) = (View::new(Column::Cpu), observed());
        assert_eq!(ids(&mut view, &observed), "cba");
        for (key, order) in [
            ('m', "bca"),
            ('d', "acb"),
            ('d', "bca"),
            ('i', "abc"),
            ('r', "cba"),
            ('c', "cba"),
        ] {
            press(&mut view, &observed, key);
            assert_eq!(ids(&mut view, &observed), order, "{key}");
        }
        "/b-team"
            .chars()
            .for_each(|key| press(&mut view, &observed, key));
        assert_eq!(ids(&mut view, &observed), "b");
        view.press(Key::Escape, &observed, 5);
        assert_eq!(ids(&mut view, &observed), "cba");
    }

    #[test]
    fn selected_session_stays_visible_and_has_details() {
        let (mut view, observed) = (View::new(Column::Id), observed());
        view.press(Key::End, &observed, 1);
        press(&mut view, &observed, 'r');
        let small = TerminalSize {
            rows: 7,
            columns: 60,
        };
        for size in [small, SIZE] {
            let chosen: Vec<_> = screen(&mut view, &observed, size)
                .into_iter()
                .filter(|row| row.starts_with("\x1b[7m"))
                .collect();
            assert!(
                chosen.len() == 1 && chosen[0].starts_with("\x1b[7mc "),
                "{chosen:?}"
            );
        }
        view.press(Key::Enter, &observed, 5);
        let shown = screen(&mut view, &observed, SIZE).join("\n");
        assert!(
            shown.contains("c-team") && shown.contains("90%, 1.9 s since its box started"),
            "{shown}"
        );
        press(&mut view, &observed, 'q');
        assert_eq!(view.page, Page::List);
    }

    #[test]
    fn every_terminal_size_is_drawn_within_its_bounds() {
        let observed = observed();
        for (height, width) in [(1, 1), (3, 10), (6, 40), (50, 20)] {
            let size = TerminalSize {
                rows: height,
                columns: width,
            };
            for page in [
                Page::List,
                Page::Details(SessionId::new("a").unwrap()),
                Page::Help,
            ] {
                let mut view = View {
                    page,
                    ..View::new(Column::Cpu)
                };
                for row in rows(&mut view, &observed, size) {
                    let shown = row
                        .render(width.into())
                        .replace("\x1b[0m", "")
                        .replace("\x1b[1m", "");
                    let shown = shown.replace("\x1b[7m", "").replace("\x1b[2m", "");
                    assert!(shown.width() <= width.into(), "{shown:?}");
                }
            }
        }
    }
}
