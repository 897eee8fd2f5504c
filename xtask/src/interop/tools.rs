//! The programs and libraries of others: which versions, and where they are installed.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::Result;
use crate::workspace::{self, about};

/// What has to be there already.
const NPM_HINT: &str = "npm comes with Node.js; any version will do to fetch the one that is used here";
const PYTHON_HINT: &str = "Python 3.10 or newer with its venv module is needed";

/// Everything that can be installed.
pub(super) struct Tools {
    folder: PathBuf,
    pinned: Vec<Pinned>,
    used: RefCell<Vec<Pinned>>,
}

/// An entry of `versions.json`.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Pinned {
    /// What this task calls it, and its folder.
    pub(super) id: String,
    /// What people call it.
    pub(crate) name: String,
    from: Registry,
    /// What its registry calls it.
    pub(crate) package: String,
    /// The version, exactly.
    pub(crate) version: String,
    /// The package in whose folder it is installed too, where a program uses both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    beside: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Registry {
    Npm,
    Pip,
}

impl Pinned {
    /// Where it comes from.
    pub(crate) fn registry(&self) -> &'static str {
        match self.from {
            Registry::Npm => "npm",
            Registry::Pip => "pip",
        }
    }
}

/// All that is pinned.
pub(crate) fn pinned() -> Result<Vec<Pinned>> {
    read_json("versions.json")
}

impl Tools {
    /// Reads what is pinned and installs the Node.js that runs what comes from npm.
    pub(super) async fn ready() -> Result<Self> {
        let tools = Self::pinned()?;
        let (pinned, _) = tools.install("node").await?;
        let version = super::succeed(tools.node().arg("--version")).await.map_err(about(
            "the package node has no program; npm must run its install script (see the npm setting ignore-scripts)",
        ))?;
        match version.trim() == format!("v{}", pinned.version) {
            true => Ok(tools),
            false => Err(format!("the package node brought {}, not {}", version.trim(), pinned.version).into()),
        }
    }

    /// What is pinned, without anything to run it.
    pub(super) fn pinned() -> Result<Self> {
        let folder = workspace::metadata()?.target_directory.join("interop");
        Ok(Self { folder, pinned: pinned()?, used: RefCell::default() })
    }

    /// Node.js, without arguments yet.
    pub(super) fn node(&self) -> Command {
        let programs = self.folder.join("node/node_modules/node/bin");
        Command::new(programs.join("node").with_extension(std::env::consts::EXE_EXTENSION))
    }

    /// What was used so far, in the order of its first use.
    pub(super) fn used(&self) -> Vec<Pinned> {
        self.used.borrow().clone()
    }

    /// An empty folder for what programs write.
    pub(super) fn scratch(&self) -> Result<PathBuf> {
        self.fresh("scratch")
    }

    /// An empty folder of this name.
    pub(super) fn fresh(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Installs a package, unless it is there, and returns its entry and its folder.
    pub(super) async fn install(&self, id: &str) -> Result<(Pinned, PathBuf)> {
        let pinned = self.entry(id)?;
        if !self.used.borrow().contains(pinned) {
            self.used.borrow_mut().push(pinned.clone());
        }
        let what = format!("{} {}", pinned.package, pinned.version);
        let (folder, receipt) = self.place(pinned);
        let entry = serde_json::to_string(pinned)?;
        if self.is_installed(pinned)? {
            return Ok((pinned.clone(), folder));
        }
        println!("== install {what}");
        if pinned.beside.is_none() {
            self.fresh(id)?;
        }
        match pinned.from {
            Registry::Npm => npm(&folder, pinned).await,
            Registry::Pip => pip(&folder, pinned).await,
        }
        .map_err(about(format!("{what} can't be installed")))?;
        std::fs::write(receipt, entry)?;
        Ok((pinned.clone(), folder))
    }

    /// The folder of a package, if this version of it is there.
    pub(super) fn installed(&self, id: &str) -> Result<Option<PathBuf>> {
        let pinned = self.entry(id)?;
        Ok(self.is_installed(pinned)?.then(|| self.place(pinned).0))
    }

    fn entry(&self, id: &str) -> Result<&Pinned> {
        self.pinned.iter().find(|pinned| pinned.id == id).ok_or_else(|| format!("{id} is not pinned").into())
    }

    fn is_installed(&self, pinned: &Pinned) -> Result<bool> {
        let entry = serde_json::to_string(pinned)?;
        Ok(std::fs::read_to_string(self.place(pinned).1).is_ok_and(|installed| installed == entry))
    }

    /// The folder of a package, and the file that says that it is there.
    fn place(&self, pinned: &Pinned) -> (PathBuf, PathBuf) {
        let (folder, receipt) = match &pinned.beside {
            None => (self.folder.join(&pinned.id), "installed.json".to_owned()),
            Some(other) => (self.folder.join(other), format!("installed-{}.json", pinned.id)),
        };
        let receipt = folder.join(receipt);
        (folder, receipt)
    }
}

/// A file of `xtask/interop`.
pub(crate) fn source(name: &str) -> PathBuf {
    workspace::root().join("xtask").join("interop").join(name)
}

/// A file of `xtask/interop` that holds data.
pub(super) fn read_json<T: serde::de::DeserializeOwned>(name: &str) -> Result<T> {
    let text = std::fs::read_to_string(source(name)).map_err(about(name))?;
    serde_json::from_str(&text).map_err(about(name))
}

/// The interpreter that has the packages of a folder.
pub(super) fn python(folder: &Path) -> PathBuf {
    let programs = folder.join(if cfg!(windows) { "Scripts" } else { "bin" });
    programs.join("python").with_extension(std::env::consts::EXE_EXTENSION)
}

async fn npm(folder: &Path, pinned: &Pinned) -> Result<()> {
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    let mut install = Command::new(npm);
    install.arg("install").arg("--prefix").arg(folder);
    install.args(["--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]);
    install.arg(format!("{}@{}", pinned.package, pinned.version));
    super::succeed(&mut install).await.map(drop).map_err(|error| format!("{error}\nhint: {NPM_HINT}").into())
}

async fn pip(folder: &Path, pinned: &Pinned) -> Result<()> {
    let python3 = if cfg!(windows) { "python" } else { "python3" };
    if pinned.beside.is_none() {
        super::succeed(Command::new(python3).args(["-m", "venv"]).arg(folder))
            .await
            .map_err(|error| format!("{error}\nhint: {PYTHON_HINT}"))?;
    }
    let mut install = Command::new(python(folder));
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    install.arg(format!("{}=={}", pinned.package, pinned.version));
    super::succeed(&mut install).await.map(drop)
}
