//! Sequences of operations: made at random, run on both sides, and cut down when they fail.

use std::time::{Duration, Instant};

use fastrand::Rng;
use sandbar_core::RuntimeKind;
use sandbar_testing::{Backend, StorageFixture, scaled};

use crate::{
    driver::Driver,
    generator::Generator,
    machine::{Limits, Machine},
    model::Model,
    operation::Operation,
};

/// Steps between two full comparisons. One more follows at the end.
const STEPS_BETWEEN_LOOKS: usize = 8;

/// Time to minimise a failing sequence.
const SHRINKING_TIME: Duration = Duration::from_mins(1);

/// Hosts are set up in these ways; the seed of a sequence says which one it runs on.
const LIMITS: [Limits; 3] = [
    Limits {
        sessions: 8,
        snapshots: 0,
        tool_snapshots: false,
    },
    Limits {
        sessions: 4,
        snapshots: 3,
        tool_snapshots: true,
    },
    Limits {
        sessions: 0,
        snapshots: 5,
        tool_snapshots: false,
    },
];

/// A sequence on which host and model disagree.
struct Disagreement {
    steps: Vec<Operation>,
    what: String,
}

/// Runs random sequences on one host and fails at the first disagreement.
///
/// `SANDBAR_MODEL_SEED` is the seed of the first sequence, and the others follow it;
/// `SANDBAR_MODEL_SEQUENCES` and `SANDBAR_MODEL_STEPS` say how many there are and how long they
/// are.
pub(crate) fn run(backend: Backend, runtime: RuntimeKind, sequences: u64) {
    let first = setting("SANDBAR_MODEL_SEED", 1);
    let sequences = setting("SANDBAR_MODEL_SEQUENCES", scaled(sequences, 1));
    let steps = usize::try_from(setting("SANDBAR_MODEL_STEPS", 50)).unwrap();
    let mut seeds: Vec<u64> = (0..sequences)
        .map(|number| first.wrapping_add(number))
        .collect();
    // A host is set up anew as seldom as possible.
    seeds.sort_by_key(|seed| seed % 3);
    // Before any thread: it enters a mount namespace of its own.
    let fixture = StorageFixture::new(backend);
    let executor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(2)
        .build()
        .unwrap();
    executor.block_on(async {
        let mut machine = Machine::start(fixture, runtime, LIMITS[0]).await;
        for seed in seeds {
            machine.limit(limits(seed)).await;
            if let Err(disagreement) = explore(&mut machine, seed, steps).await {
                let smaller = shrink(&mut machine, &disagreement.steps).await;
                report(seed, steps, &disagreement, smaller.as_ref());
            }
        }
        machine.stop().await;
    });
}

fn limits(seed: u64) -> Limits {
    let which = usize::try_from(seed % 3).unwrap();
    LIMITS[which]
}

/// Makes a sequence as it goes: what is done next depends on what there is.
async fn explore(machine: &mut Machine, seed: u64, steps: usize) -> Result<(), Disagreement> {
    let mut random = Rng::with_seed(seed);
    compare(machine, |model, step| {
        (step < steps).then(|| {
            Generator {
                random: &mut random,
                model,
                step,
            }
            .next()
        })
    })
    .await
}

async fn replay(machine: &mut Machine, steps: &[Operation]) -> Result<(), Disagreement> {
    compare(machine, |_, step| steps.get(step).cloned()).await
}

/// Runs a sequence on host and model.
async fn compare(
    machine: &mut Machine,
    mut next: impl FnMut(&Model, usize) -> Option<Operation>,
) -> Result<(), Disagreement> {
    let mut model = Model::new(machine.rules());
    let mut driver = Driver::new(machine);
    let mut steps = Vec::new();
    let outcome = loop {
        let Some(operation) = next(&model, steps.len()) else {
            break look(&driver, &model).await;
        };
        let expected = model.apply(&operation);
        let actual = driver.perform(&operation).await;
        steps.push(operation);
        if actual != expected {
            break Err(format!(
                "the answer differs\n  expected: {expected:?}\n    actual: {actual:?}"
            ));
        }
        if steps.len() % STEPS_BETWEEN_LOOKS == 0
            && let Err(what) = look(&driver, &model).await
        {
            break Err(what);
        }
    };
    let cleared = driver
        .clear()
        .await
        .map_err(|error| format!("could not clear up: {}", error.chain()));
    outcome
        .and(cleared)
        .map_err(|what| Disagreement { steps, what })
}

/// Compares everything there is.
async fn look(driver: &Driver<'_>, model: &Model) -> Result<(), String> {
    let expected = model.world();
    let actual = driver
        .world()
        .await
        .map_err(|error| format!("could not look: {}", error.chain()))?;
    if actual == expected {
        return Ok(());
    }
    let mut what = "the state differs".to_owned();
    let mut part = |name: &str, expected: String, actual: String| {
        if expected != actual {
            what.extend([
                "\n  ",
                name,
                ", expected: ",
                &expected,
                "\n  ",
                name,
                ",   actual: ",
                &actual,
            ]);
        }
    };
    part(
        "sessions",
        format!("{:?}", expected.sessions),
        format!("{:?}", actual.sessions),
    );
    part(
        "snapshots",
        format!("{:?}", expected.snapshots),
        format!("{:?}", actual.snapshots),
    );
    part(
        "files",
        format!("{:?}", expected.files),
        format!("{:?}", actual.files),
    );
    part(
        "volumes",
        format!("{:?}", expected.volumes),
        format!("{:?}", actual.volumes),
    );
    Err(what)
}

/// Leaves out steps as long as host and model still disagree: halves first, then smaller and
/// smaller pieces.
async fn shrink(machine: &mut Machine, steps: &[Operation]) -> Option<Disagreement> {
    let deadline = Instant::now() + SHRINKING_TIME;
    let mut smallest = replay(machine, steps).await.err()?;
    let mut piece = smallest.steps.len() / 2;
    while piece > 0 && Instant::now() < deadline {
        let mut from = 0;
        while from < smallest.steps.len() && Instant::now() < deadline {
            let mut fewer = smallest.steps.clone();
            fewer.drain(from..(from + piece).min(fewer.len()));
            match replay(machine, &fewer).await {
                Err(disagreement) => smallest = disagreement,
                Ok(()) => from += piece,
            }
        }
        piece /= 2;
    }
    Some(smallest)
}

fn report(seed: u64, steps: usize, found: &Disagreement, smaller: Option<&Disagreement>) -> ! {
    let listed = |disagreement: &Disagreement| {
        let lines = disagreement
            .steps
            .iter()
            .enumerate()
            .map(|(number, step)| format!("{number:4} {step:?}\n"));
        format!("{}{}", lines.collect::<String>(), disagreement.what)
    };
    let smaller = smaller.map_or_else(
        || "it does not happen again when the same steps are done again".to_owned(),
        |smaller| {
            format!(
                "the same with {} steps:\n{}",
                smaller.steps.len(),
                listed(smaller)
            )
        },
    );
    panic!(
        "host and model disagree; again with SANDBAR_MODEL_SEED={seed} SANDBAR_MODEL_SEQUENCES=1 \
         SANDBAR_MODEL_STEPS={steps}\n{}\n\n{smaller}",
        listed(found)
    );
}

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}
