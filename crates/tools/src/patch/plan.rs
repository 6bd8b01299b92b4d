//! From what a patch asks for to the changes of files.

use provost_core::act::Touch;
use provost_core::path::RelPath;

use super::hunk;
use super::parse::{Action, Section};
use crate::failure::{BadCall, Failure};
use crate::text::show;
use crate::tool::{Context, SeenState};
use crate::touch;
use crate::workspace::{FileChange, FileError, FileMode, FileVersion, Kind, Located, refuse_git_names};
use crate::write::check_size;

/// The changes of a patch.
pub(super) struct Plan {
    pub(super) files: Vec<Planned>,
}

/// One file that a patch changes.
pub(super) struct Planned {
    pub(super) change: FileChange,
    /// How many names the file has now.
    pub(super) names: u64,
    /// Whether all of its content comes from the patch.
    pub(super) known: bool,
}

/// What one section would touch.
pub(super) fn touches(section: &Section, ctx: &Context<'_>) -> Result<Vec<Touch>, BadCall> {
    let located = locate(&section.path, ctx)?;
    let mut touches = match section.action {
        Action::Create => Vec::new(),
        _ => touch::reads(&located),
    };
    touches.extend(touch::writes(&located));
    if let Action::Update { to: Some(to) } = &section.action {
        touches.extend(touch::writes(&locate(to, ctx)?));
    }
    Ok(touches)
}

/// Where a path of the patch leads. All of them are written to.
fn locate(path: &str, ctx: &Context<'_>) -> Result<Located, FileError> {
    let located = ctx.workspace.locate(&ctx.workspace.name(path)?)?;
    refuse_git_names(&located)?;
    Ok(located)
}

impl Plan {
    /// Works out all sections in order, a later one upon what an earlier one leaves. Nothing is written.
    pub(super) fn of(sections: &[Section], ctx: &Context<'_>) -> Result<Self, Failure> {
        let mut plan = Self { files: Vec::new() };
        for section in sections {
            plan.section(section, ctx)?;
        }
        Ok(plan)
    }

    fn section(&mut self, section: &Section, ctx: &Context<'_>) -> Result<(), Failure> {
        let located = locate(&section.path, ctx)?;
        let at = self.file(&located, ctx)?;
        let now = self.files[at].change.after.clone();
        let failed = |why: String| {
            let text = format!("`{}`: {why}", located.named);
            Failure::NoMatch(show::closed(&text, "Nothing of the patch was written."))
        };
        match (&section.action, now) {
            (Action::Create, Some(_)) => Err(failed("is to be created and exists already".to_owned())),
            (Action::Create, None) => {
                let bytes = hunk::create(&section.hunks).map_err(failed)?;
                check_size(&located, bytes.len(), ctx)?;
                let mode = section.mode.unwrap_or(FileMode::Regular);
                self.files[at].known = true;
                self.files[at].change.after = Some(FileVersion { mode, bytes });
                Ok(())
            }
            (Action::Delete | Action::Update { .. }, None) => {
                Err(touch::with_near(FileError::missing(&located.named), ctx))
            }
            (Action::Delete, Some(now)) => {
                may_delete(section, &located, &now, ctx).map_err(failed)?;
                self.files[at].change.after = None;
                Ok(())
            }
            (Action::Update { to }, Some(now)) => {
                let bytes = hunk::apply(&now.bytes, &section.hunks).map_err(failed)?;
                if std::str::from_utf8(&now.bytes).is_err() && adds_other_than_ascii(section) {
                    return Err(Failure::NotText {
                        path: located.named,
                        why: "is not valid UTF-8, and the patch adds other characters than ASCII: that would make two \
                              encodings in one file. Nothing of the patch was written."
                            .to_owned(),
                    });
                }
                check_size(&located, bytes.len(), ctx)?;
                let after = FileVersion { mode: section.mode.unwrap_or(now.mode), bytes };
                let Some(to) = to else {
                    self.files[at].change.after = Some(after);
                    return Ok(());
                };
                let target = locate(to, ctx)?;
                let other = self.file(&target, ctx)?;
                if other != at && self.files[other].change.after.is_some() {
                    return Err(failed(format!("is to become `{}`, which exists already", target.named)));
                }
                let knew = (ctx.seen)(&located.real, &now.bytes) == SeenState::Same;
                self.files[at].change.after = None;
                self.files[other].change.after = Some(after);
                self.files[other].known = knew;
                Ok(())
            }
        }
    }

    /// The index of a file in the plan, read now if it is new there.
    fn file(&mut self, located: &Located, ctx: &Context<'_>) -> Result<usize, Failure> {
        if let Some(at) = self.files.iter().position(|file| file.change.path == located.real) {
            return Ok(at);
        }
        let (before, names) = match located.kind {
            None => (None, 0),
            Some(Kind::File) => {
                let open = ctx.workspace.open_located(located)?;
                let (mode, names) = (open.mode(), open.names());
                let bytes = open.read(ctx.limits.file_bytes)?;
                if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
                    return Err(Failure::NotText {
                        path: located.named.clone(),
                        why: crate::text::lines::not_text(&bytes).unwrap_or_default(),
                    });
                }
                (Some(FileVersion { mode, bytes }), names)
            }
            Some(kind) => {
                return Err(Failure::File(FileError::Kind {
                    path: located.named.clone(),
                    kind,
                    wanted: "a file",
                }));
            }
        };
        let path: RelPath = located.real.clone();
        self.files.push(Planned {
            change: FileChange { path, before: before.clone(), after: before },
            names,
            known: false,
        });
        Ok(self.files.len() - 1)
    }
}

fn adds_other_than_ascii(section: &Section) -> bool {
    let mut added = section.hunks.iter().flat_map(|hunk| &hunk.lines);
    added.any(|line| line.kind == super::parse::LineKind::Add && !line.body.is_ascii())
}

/// A deletion must show that whoever asks for it knows what is deleted: all of its lines, or having read it.
fn may_delete(
    section: &Section,
    located: &Located,
    now: &FileVersion,
    ctx: &Context<'_>,
) -> Result<(), String> {
    if section.hunks.is_empty() {
        let knew = now.bytes.is_empty() || (ctx.seen)(&located.real, &now.bytes) == SeenState::Same;
        return if knew {
            Ok(())
        } else {
            Err("is to be deleted, and you have not read it as it is now: read it first".to_owned())
        };
    }
    let rest = hunk::apply(&now.bytes, &section.hunks)?;
    if crate::text::lines::without_bom(&rest).is_empty() {
        Ok(())
    } else {
        Err("is to be deleted, and the patch does not hold all of its lines".to_owned())
    }
}
