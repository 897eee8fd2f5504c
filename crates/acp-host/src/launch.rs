//! A folder becomes a running server (13.2, 13.3).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use acp_protocol::manifest::{PackageManifest, Transport};
use tokio::process::{Child, Command};

use crate::StderrTail;
use crate::client::{Client, ClientError, ClientOptions};
use crate::package::Package;

/// How long a server may take to end once its input is closed.
const EXIT_PATIENCE: Duration = Duration::from_secs(10);

/// What the server inherits of this process's environment. Whatever is chosen, the variables of `acp.json` and those
/// given to [`Launch::variable`] come on top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Environment {
    /// What programs need to run at all: paths, home, locale, proxies, certificates. The default, because the rest of a host's
    /// environment may hold secrets that are none of the server's business.
    #[default]
    Essential,
    /// Everything.
    Inherit,
    /// Nothing.
    Empty,
}

const ESSENTIAL: [&str; 27] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    "SystemRoot",
    "SystemDrive",
    "USERPROFILE",
    "APPDATA",
    "LOCALAPPDATA",
    "PATHEXT",
    "HTTP_PROXY",
    "ALL_PROXY",
    "all_proxy",
    "ACP_CA_FILE",
    "HTTPS_PROXY",
    "NO_PROXY",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Everything needed to start a server of a folder; [`spawn`](Self::spawn) does it.
#[derive(Clone, Debug)]
pub struct Launch {
    folder: PathBuf,
    command: String,
    arguments: Vec<String>,
    environment: Environment,
    variables: Vec<(OsString, OsString)>,
    working_directory: Option<PathBuf>,
    resolve_arguments: bool,
    forward_stderr: bool,
}

impl Launch {
    /// How to start the server of an installed package, with the folder as working directory.
    pub fn of(package: &Package) -> Result<Self, ClientError> {
        Self::by_manifest(&package.folder, &package.manifest)
    }

    /// [`of`](Self::of) for a manifest and the folder it belongs to.
    pub fn by_manifest(folder: &Path, manifest: &PackageManifest) -> Result<Self, ClientError> {
        let Transport::Stdio { command, args, env } = &manifest.transport else {
            return Err(ClientError::Start(format!(
                "{} is a remote server: this host only starts local ones",
                manifest.id
            )));
        };
        let launch = Self::program(folder, command).arguments(args.iter().cloned());
        Ok(env.iter().flatten().fold(launch, |launch, (name, value)| launch.variable(name, value)))
    }

    /// How to start any MCP program over stdio.
    pub fn program(folder: impl Into<PathBuf>, command: impl Into<String>) -> Self {
        let folder = folder.into();
        Self {
            // The server starts in another directory, where a relative path would mean something else.
            folder: std::path::absolute(&folder).unwrap_or(folder),
            command: command.into(),
            arguments: Vec::new(),
            environment: Environment::default(),
            variables: Vec::new(),
            working_directory: None,
            resolve_arguments: false,
            forward_stderr: false,
        }
    }

    /// Adds arguments behind those there are.
    pub fn arguments<A: Into<String>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Chooses what is inherited.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Sets one variable of the server's environment.
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Where the server may keep its cache (`ACP_CACHE_DIR`, 13.3).
    pub fn cache_dir(self, folder: &Path) -> Self {
        self.variable("ACP_CACHE_DIR", folder)
    }

    /// Where the server writes the tables it hands over by file (`ACP_TMP_DIR`, 13.3).
    pub fn tmp_dir(self, folder: &Path) -> Self {
        self.variable("ACP_TMP_DIR", folder)
    }

    /// Starts the server in another directory than its folder.
    pub fn working_directory(mut self, folder: &Path) -> Self {
        self.working_directory = Some(folder.to_path_buf());
        self
    }

    /// Makes arguments that name a file of the folder absolute. Some hosts do it, since 13.2 calls them relative to the
    /// folder; with the folder as working directory it changes nothing.
    pub fn resolve_arguments(mut self) -> Self {
        self.resolve_arguments = true;
        self
    }

    /// Passes the server's standard error on to this process's.
    pub fn forward_stderr(mut self) -> Self {
        self.forward_stderr = true;
        self
    }

    /// Starts the server. It is killed when the returned [`Server`] is dropped.
    pub fn spawn(&self, options: ClientOptions) -> Result<Server, ClientError> {
        let mut child = self.command().spawn().map_err(|error| {
            ClientError::Start(format!("can't start {}: {error}", self.resolved_command().display()))
        })?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(ClientError::Start("the server has no standard streams".to_owned()));
        };
        let stderr = StderrTail::follow(stderr, self.forward_stderr);
        let client = Client::start(stdout, stdin, options.stderr(stderr.clone()));
        Ok(Server { child, client, stderr })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.resolved_command());
        command
            .args(self.arguments.iter().map(|argument| self.resolved_argument(argument)))
            .current_dir(self.working_directory.as_ref().unwrap_or(&self.folder))
            .env_clear()
            .envs(self.inherited())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    fn inherited(&self) -> Vec<(OsString, OsString)> {
        match self.environment {
            Environment::Empty => Vec::new(),
            Environment::Inherit => std::env::vars_os().collect(),
            Environment::Essential => {
                ESSENTIAL.iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?))).collect()
            }
        }
    }

    /// A command with a path separator belongs to the folder, a bare name to the search path. An empty environment has
    /// no search path, and a host still has to find `sh`; it looks where POSIX systems keep it.
    fn resolved_command(&self) -> PathBuf {
        let command = Path::new(&self.command);
        if self.command.contains('/') || (cfg!(windows) && self.command.contains('\\')) {
            return if command.is_absolute() { command.to_path_buf() } else { self.folder.join(command) };
        }
        // Windows looks for a program in the working directory before it uses the search path.
        if cfg!(windows) && self.folder.join(command).is_file() {
            return self.folder.join(command);
        }
        let path = self.search_path();
        std::env::split_paths(&path)
            .flat_map(|folder| candidates(&folder, &self.command))
            .find(|candidate| candidate.is_file())
            .unwrap_or_else(|| command.to_path_buf())
    }

    fn search_path(&self) -> OsString {
        let own = self.variables.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
        let inherited = || if self.environment == Environment::Empty { None } else { std::env::var_os("PATH") };
        own.or_else(inherited).unwrap_or_else(|| OsString::from(if cfg!(windows) { "" } else { "/usr/bin:/bin" }))
    }

    fn resolved_argument(&self, argument: &str) -> OsString {
        let file = self.folder.join(argument);
        if self.resolve_arguments && !argument.is_empty() && file.is_file() { file.into() } else { argument.into() }
    }
}

fn candidates(folder: &Path, name: &str) -> Vec<PathBuf> {
    let plain = folder.join(name);
    if !cfg!(windows) || Path::new(name).extension() == Some(OsStr::new("exe")) {
        return vec![plain];
    }
    vec![folder.join(format!("{name}.exe")), plain]
}

/// A running server and the client that speaks to it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    client: Client,
    stderr: StderrTail,
}

impl Server {
    /// The client; clones of it may be used from several tasks.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What the server wrote to its standard error last.
    pub fn stderr(&self) -> &StderrTail {
        &self.stderr
    }

    /// Process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Closes the server's input, which ends it (MCP, stdio shutdown). One that hasn't ended after ten seconds is killed.
    pub async fn close(mut self) -> std::io::Result<ExitStatus> {
        self.client.close();
        match tokio::time::timeout(EXIT_PATIENCE, self.child.wait()).await {
            Ok(status) => status,
            Err(_) => {
                self.child.start_kill()?;
                self.child.wait().await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_with_a_separator_belong_to_the_folder_and_bare_names_to_the_path() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tool"), "").unwrap();
        let resolved = |command: &str, path: &Path| {
            Launch::program(folder.path(), command)
                .environment(Environment::Empty)
                .variable("PATH", path)
                .resolved_command()
        };
        assert_eq!(resolved("./tool", Path::new("")), folder.path().join("./tool"));
        assert_eq!(resolved("tool", folder.path()), folder.path().join("tool"));
        assert_eq!(resolved("tool", Path::new("")), Path::new("tool"));
        assert!(Launch::program("relative", "./tool").resolved_command().is_absolute());
        #[cfg(unix)]
        assert!(Launch::program("/", "sh").environment(Environment::Empty).resolved_command().is_absolute());
    }

    #[test]
    fn arguments_become_absolute_only_when_asked() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("start.sh"), "").unwrap();
        let launch = Launch::program(folder.path(), "sh");
        assert_eq!(launch.resolved_argument("start.sh"), "start.sh");
        let launch = launch.resolve_arguments();
        assert_eq!(launch.resolved_argument("start.sh"), folder.path().join("start.sh"));
        for other in ["--http", ""] {
            assert_eq!(launch.resolved_argument(other), other);
        }
    }
}
