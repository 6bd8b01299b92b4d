//! Lists of models as vendors and runtimes write them. What is not understood is left out, never guessed.

use serde_json::Value;

use super::Offer;

/// Longest name of a model, in characters.
const LONGEST_ID: usize = 300;
/// Most tokens and bytes that are believed.
const MOST: u64 = 1 << 50;

fn number(value: &Value, keys: &[&str]) -> Option<u64> {
    let found = keys.iter().find_map(|key| value.pointer(key)?.as_u64());
    found.filter(|number| (1..=MOST).contains(number))
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}

fn id(value: &Value, key: &str) -> Option<String> {
    text(value, key).filter(|id| !id.is_empty() && id.chars().count() <= LONGEST_ID)
}

/// OpenAI's list, and those that are like it. Some are a bare array; windows stand under several names.
pub(super) fn plain(list: &Value) -> Vec<Offer> {
    let items = list.get("data").unwrap_or(list);
    let items = items.as_array().map(Vec::as_slice).unwrap_or_default();
    let offer = |item: &Value| {
        let id = id(item, "id")?;
        let title = text(item, "display_name").or_else(|| text(item, "name")).filter(|title| *title != id);
        Some(Offer {
            // The compatible API of Gemini writes its own names.
            id: id.strip_prefix("models/").unwrap_or(&id).to_owned(),
            title,
            window: number(
                item,
                &[
                    "/context_length",
                    "/context_window",
                    "/max_context_length",
                    "/max_model_len",
                    "/max_input_tokens",
                ],
            ),
            own_window: number(item, &["/meta/n_ctx_train"]),
            max_output: number(
                item,
                &["/top_provider/max_completion_tokens", "/max_completion_tokens", "/max_output_tokens"],
            )
            .or_else(|| item.get("max_input_tokens").and_then(|_| number(item, &["/max_tokens"]))),
            size_bytes: number(item, &["/meta/size"]),
            loaded: None,
            tools: item
                .pointer("/supported_parameters")
                .and_then(Value::as_array)
                .map(|all| all.iter().any(|parameter| parameter == "tools")),
        })
    };
    items.iter().filter_map(offer).collect()
}

/// The window that llama.cpp's server gives each request.
pub(super) fn llama_window(props: &Value) -> Option<u64> {
    number(props, &["/default_generation_settings/n_ctx", "/n_ctx"])
}

/// LM Studio's own list.
pub(super) fn lm_studio(list: &Value) -> Vec<Offer> {
    let items = list.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let speaks = |item: &&Value| item.get("type").is_none_or(|kind| kind != "embeddings");
    let offer = |item: &Value| {
        let capabilities = item.get("capabilities").and_then(Value::as_array);
        Some(Offer {
            id: id(item, "id")?,
            window: number(item, &["/loaded_context_length"]),
            own_window: number(item, &["/max_context_length"]),
            loaded: item.get("state").and_then(Value::as_str).map(|state| state == "loaded"),
            tools: capabilities.map(|all| all.iter().any(|capability| capability == "tool_use")),
            ..Offer::default()
        })
    };
    items.iter().filter(speaks).filter_map(offer).collect()
}

/// Gemini's list, of those that generate.
pub(super) fn gemini(page: &Value) -> Vec<Offer> {
    let items = page.get("models").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let generates = |item: &&Value| {
        let methods = item.get("supportedGenerationMethods").and_then(Value::as_array);
        methods.is_none_or(|methods| methods.iter().any(|method| method == "generateContent"))
    };
    let offer = |item: &Value| {
        let name = id(item, "name")?;
        Some(Offer {
            id: name.strip_prefix("models/").unwrap_or(&name).to_owned(),
            title: text(item, "displayName"),
            window: number(item, &["/inputTokenLimit"]),
            max_output: number(item, &["/outputTokenLimit"]),
            ..Offer::default()
        })
    };
    items.iter().filter(generates).filter_map(offer).collect()
}

/// Ollama's list of what is on the disk.
pub(super) fn ollama(list: &Value) -> Vec<Offer> {
    let items = list.get("models").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let offer = |item: &Value| {
        let id = id(item, "model").or_else(|| id(item, "name"))?;
        Some(Offer { id, size_bytes: number(item, &["/size"]), loaded: Some(false), ..Offer::default() })
    };
    items.iter().filter_map(offer).collect()
}

/// What Ollama shows of one model: what it could take, what its file sets, what it is able to.
pub(super) fn ollama_details(offer: &mut Offer, shown: &Value) {
    let info = shown.get("model_info").and_then(Value::as_object);
    let length = info.and_then(|info| info.iter().find(|(key, _)| key.ends_with(".context_length")));
    offer.own_window =
        length.and_then(|(_, length)| length.as_u64()).filter(|length| (1..=MOST).contains(length));
    // Lines of `name value`. Without this one the server decides, and says so only of a model that it has loaded.
    let parameters = shown.get("parameters").and_then(Value::as_str).unwrap_or_default();
    let set = parameters.lines().find_map(|line| line.trim().strip_prefix("num_ctx"));
    offer.window =
        set.and_then(|value| value.trim().parse().ok()).filter(|window| (1..=MOST).contains(window));
    let able = shown.get("capabilities").and_then(Value::as_array);
    offer.tools = able.map(|all| all.iter().any(|capability| capability == "tools"));
}

/// The models that Ollama has loaded, with the windows that they run with.
pub(super) fn ollama_running(offers: &mut [Offer], running: &Value) {
    let items = running.get("models").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for item in items {
        let name = id(item, "model").or_else(|| id(item, "name"));
        let Some(offer) = name.and_then(|name| offers.iter_mut().find(|offer| offer.id == name)) else {
            continue;
        };
        offer.loaded = Some(true);
        offer.window = number(item, &["/context_length"]).or(offer.window);
    }
}
