//! The rows. What a vendor documents, and no more: names of models and prices change too often to stand here.

use super::{Affinity, AuthStyle, Place, Preset, Quirk};
use crate::WireKind;

/// A vendor's service that speaks chat completions with a bearer key.
const fn hosted(
    name: &'static str,
    title: &'static str,
    base_url: &'static str,
    key_vars: &'static [&'static str],
) -> Preset {
    Preset {
        name,
        title,
        wire: WireKind::OpenAiChat,
        base_url: Some(base_url),
        auth: AuthStyle::Bearer,
        signs: &[],
        key_vars,
        place: Place::Hosted,
        host_ends: &[],
        quirks: &[],
    }
}

/// A runtime on this machine, at the port where it listens by itself; it takes a key where one was set up.
const fn local(
    name: &'static str,
    title: &'static str,
    base_url: &'static str,
    key_vars: &'static [&'static str],
) -> Preset {
    Preset { place: Place::Local, quirks: &[Quirk::SchemaOrTools], ..hosted(name, title, base_url, key_vars) }
}

/// How OpenAI is told which requests share a prompt.
const CACHE_KEY: Quirk = Quirk::Affinity(Affinity::Member("prompt_cache_key"));

const OPENAI: Preset = hosted("openai", "OpenAI", "https://api.openai.com/v1", &["OPENAI_API_KEY"]);
const GEMINI: Preset = hosted(
    "gemini",
    "Google Gemini",
    "https://generativelanguage.googleapis.com/v1beta",
    &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
);

/// All of them: first whose wires are their own, then by name.
pub(super) const TABLE: &[Preset] = &[
    Preset { quirks: &[Quirk::MaxCompletionTokens, CACHE_KEY], ..OPENAI },
    Preset {
        name: "openai-responses",
        title: "OpenAI, Responses",
        wire: WireKind::OpenAiResponses,
        quirks: &[CACHE_KEY],
        ..OPENAI
    },
    Preset {
        wire: WireKind::AnthropicMessages,
        auth: AuthStyle::XApiKey,
        ..hosted("anthropic", "Anthropic", "https://api.anthropic.com", &["ANTHROPIC_API_KEY"])
    },
    Preset { wire: WireKind::Gemini, auth: AuthStyle::XGoogApiKey, ..GEMINI },
    Preset {
        name: "gemini-openai",
        title: "Google Gemini, compatible",
        base_url: Some("https://generativelanguage.googleapis.com/v1beta/openai"),
        ..GEMINI
    },
    // Each customer has a host of its own.
    Preset {
        base_url: None,
        auth: AuthStyle::ApiKey,
        host_ends: &[".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com"],
        quirks: &[Quirk::MaxCompletionTokens, CACHE_KEY],
        ..hosted("azure", "Azure OpenAI", "", &["AZURE_OPENAI_API_KEY"])
    },
    // Each region has a host of its own. Asked with Bedrock's own keys, or signed with those of an account.
    Preset {
        base_url: None,
        signs: &[
            ("bedrock-runtime.*.amazonaws.com", "bedrock"),
            ("bedrock-mantle.*.api.aws", "bedrock-mantle"),
        ],
        host_ends: &["bedrock-runtime.*.amazonaws.com", "bedrock-mantle.*.api.aws"],
        ..hosted("bedrock", "Amazon Bedrock, compatible", "", &["AWS_BEARER_TOKEN_BEDROCK"])
    },
    Preset {
        quirks: &[Quirk::MaxCompletionTokens],
        ..hosted("cerebras", "Cerebras", "https://api.cerebras.ai/v1", &["CEREBRAS_API_KEY"])
    },
    Preset {
        quirks: &[Quirk::EchoReasoning],
        ..hosted("deepseek", "DeepSeek", "https://api.deepseek.com/v1", &["DEEPSEEK_API_KEY"])
    },
    Preset {
        quirks: &[Quirk::Affinity(Affinity::Header("x-session-affinity"))],
        ..hosted("fireworks", "Fireworks", "https://api.fireworks.ai/inference/v1", &["FIREWORKS_API_KEY"])
    },
    hosted("groq", "Groq", "https://api.groq.com/openai/v1", &["GROQ_API_KEY"]),
    hosted("minimax", "MiniMax", "https://api.minimax.io/v1", &["MINIMAX_API_KEY"]),
    Preset {
        quirks: &[Quirk::NoStreamOptions],
        ..hosted("mistral", "Mistral", "https://api.mistral.ai/v1", &["MISTRAL_API_KEY"])
    },
    Preset {
        quirks: &[Quirk::EchoReasoning],
        ..hosted("moonshot", "Moonshot (Kimi)", "https://api.moonshot.ai/v1", &["MOONSHOT_API_KEY"])
    },
    Preset {
        quirks: &[Quirk::Affinity(Affinity::Header("x-session-id")), Quirk::CacheControl],
        ..hosted("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", &["OPENROUTER_API_KEY"])
    },
    Preset {
        quirks: &[Quirk::NoTools],
        ..hosted("perplexity", "Perplexity", "https://api.perplexity.ai", &["PERPLEXITY_API_KEY"])
    },
    hosted(
        "qwen",
        "Qwen (DashScope, international)",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        &["DASHSCOPE_API_KEY"],
    ),
    hosted(
        "qwen-cn",
        "Qwen (DashScope, China)",
        "https://dashscope.aliyuncs.com/compatible-mode/v1",
        &["DASHSCOPE_API_KEY"],
    ),
    hosted("together", "Together", "https://api.together.xyz/v1", &["TOGETHER_API_KEY"]),
    // Each project has a path of its own. The token is one that `gcloud auth print-access-token` prints.
    Preset {
        base_url: None,
        host_ends: &["aiplatform.googleapis.com", "*-aiplatform.googleapis.com"],
        ..hosted("vertex", "Google Vertex AI, compatible", "", &["VERTEX_ACCESS_TOKEN"])
    },
    Preset {
        quirks: &[Quirk::Affinity(Affinity::Header("x-grok-conv-id"))],
        ..hosted("xai", "xAI", "https://api.x.ai/v1", &["XAI_API_KEY"])
    },
    Preset {
        quirks: &[Quirk::EchoReasoning],
        ..hosted("zai", "Z.ai (GLM, international)", "https://api.z.ai/api/paas/v4", &["ZAI_API_KEY"])
    },
    Preset {
        quirks: &[Quirk::EchoReasoning],
        ..hosted(
            "zhipu",
            "Zhipu (GLM, China)",
            "https://open.bigmodel.cn/api/paas/v4",
            &["ZHIPUAI_API_KEY", "ZHIPU_API_KEY"],
        )
    },
    Preset {
        wire: WireKind::Ollama,
        ..local("ollama", "Ollama", "http://localhost:11434", &["OLLAMA_API_KEY"])
    },
    local("ollama-openai", "Ollama, compatible", "http://localhost:11434/v1", &["OLLAMA_API_KEY"]),
    local("jan", "Jan", "http://localhost:1337/v1", &["JAN_API_KEY"]),
    local("koboldcpp", "KoboldCpp", "http://localhost:5001/v1", &["KOBOLDCPP_API_KEY"]),
    local("llamacpp", "llama.cpp", "http://localhost:8080/v1", &["LLAMA_API_KEY"]),
    local("lmstudio", "LM Studio", "http://localhost:1234/v1", &["LM_API_TOKEN", "LMSTUDIO_API_KEY"]),
    local("localai", "LocalAI", "http://localhost:8080/v1", &["LOCALAI_API_KEY"]),
    local("sglang", "SGLang", "http://localhost:30000/v1", &["SGLANG_API_KEY"]),
    local("vllm", "vLLM", "http://localhost:8000/v1", &["VLLM_API_KEY"]),
];
