//! `provost providers`.

use provost::model::presets::{Place, Preset, Quirk};
use serde_json::json;

use super::model_choice::AWS_KEYS;
use crate::args::{Providers, Wire};
use crate::render::{JsonLines, say};
use crate::world::World;

pub(crate) fn providers(world: &World, args: &Providers) -> u8 {
    // Whether there is one, never what it is.
    let is_set = |variable: &&str| world.var(variable).is_some();
    let signs = |row: &Preset| !row.signs.is_empty() && AWS_KEYS.iter().all(is_set);
    let set = |row: &Preset| {
        row.key_vars.iter().copied().find(is_set).or_else(|| signs(row).then_some(AWS_KEYS[0]))
    };
    if args.json {
        for row in Preset::all() {
            JsonLines::say(&json!({
                "name": row.name, "title": row.title, "wire": Wire::of(row.wire).option(),
                "base_url": row.base_url, "key_vars": row.key_vars, "key_set": set(row).is_some(),
                "local": row.place == Place::Local, "tools": !row.quirks.contains(&Quirk::NoTools),
            }));
        }
        return 0;
    }
    let width = |of: fn(&Preset) -> &str| Preset::all().iter().map(|row| of(row).len()).max().unwrap_or(0);
    let names = width(|row| row.name);
    let wires = width(|row| Wire::of(row.wire).option());
    let keys = width(|row| row.key_vars[0]);
    say!("{:names$}  {:wires$}  {:keys$}  {:5}  BASE URL", "NAME", "WIRE", "KEY VARIABLE", "KEY");
    for row in Preset::all() {
        let set = set(row);
        let key = match (set, row.place) {
            (Some(_), _) => "set",
            (None, Place::Hosted) => "none",
            (None, Place::Local) => "-",
        };
        let variable = set.unwrap_or(row.key_vars[0]);
        let wire = Wire::of(row.wire).option();
        let url = row.base_url.unwrap_or("(your own: --base-url)");
        let note = if row.quirks.contains(&Quirk::NoTools) { "  (calls no tools)" } else { "" };
        say!("{:names$}  {wire:wires$}  {variable:keys$}  {key:5}  {url}{note}", row.name);
    }
    0
}
