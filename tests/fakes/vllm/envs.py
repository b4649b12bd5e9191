"""As in vLLM: what it makes of its variables."""

VLLM_SERVER_DEV_MODE = True
