//! At a real terminal, which `script` makes.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use super::{CANARY, Home, KEY, Watch};
use crate::server::binary_of;

/// H-5.5.1-04: a secret that is typed doesn't show.
#[test]
fn a_secret_is_not_echoed() {
    let home = Home::with_toy("");
    let folder = |name: &str| home.path().join(name).display().to_string();
    let line = format!(
        "'{}' --root '{}' --project '{}' source add shop --secrets file --no-check --resource acc_1",
        binary_of("acp").display(),
        folder("root"),
        folder("project")
    );
    let mut child = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("HOME", home.path().join("home"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script, of util-linux");
    let watch = Watch::over(child.id());
    let (mut stdin, mut stdout) = (child.stdin.take().expect("stdin"), child.stdout.take().expect("stdout"));
    let mut seen = String::new();
    // Each answer once its question is there: what is typed before shows, whatever the program does.
    let answers = [
        ("Number [1]: ", "1"),
        ("API key*: ", KEY),
        ("Region (empty: eu): ", "us"),
        ("Zone: ", ""),
        ("Price: ", ""),
        ("Access mode (empty: onlyRead): ", ""),
        ("in one line): ", ""),
        ("sees [25]: ", ""),
        ("in USD [0]: ", ""),
    ];
    for (question, answer) in answers {
        let mut chunk = [0; 1024];
        while !seen.ends_with(question) {
            let count = stdout.read(&mut chunk).expect("output");
            assert!(count > 0, "{question:?} was not asked: {seen}");
            seen.push_str(&String::from_utf8_lossy(&chunk[..count]));
        }
        writeln!(stdin, "{answer}").expect("input");
    }
    stdout.read_to_string(&mut seen).expect("output");
    assert!(child.wait().expect("script").success(), "{seen}");
    watch.end("script");
    assert!(seen.contains("us\r\n") && seen.contains("Saved shop") && !seen.contains(CANARY), "{seen}");
    let kept = std::fs::read_to_string(home.path().join("root/sources.secrets/shop.api_key")).expect("the secret");
    assert_eq!(kept, KEY);
}
