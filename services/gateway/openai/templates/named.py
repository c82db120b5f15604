"""The templates that have names. Each is Jinja text, as tokenizers of Hugging Face have it.

None writes the token that begins a text: the tokenizer behind the model adds it.
"""

CHATML = """\
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
{%- endfor -%}
{{- '<|im_start|>assistant\\n' -}}
"""
LLAMA3 = """\
{%- for message in messages -%}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + '<|eot_id|>' -}}
{%- endfor -%}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
"""
GEMMA = """\
{%- set state = namespace(system='') -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{%- set state.system = state.system + message.content | trim + '\\n\\n' -%}
{%- else -%}
{{- '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' -}}
{%- if message.role == 'user' -%}
{{- state.system -}}
{%- set state.system = '' -%}
{%- endif -%}
{{- message.content | trim + '<end_of_turn>\\n' -}}
{%- endif -%}
{%- endfor -%}
{{- '<start_of_turn>model\\n' -}}
"""
MISTRAL = """\
{%- set state = namespace(system='') -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{%- set state.system = state.system + message.content + '\\n\\n' -%}
{%- elif message.role == 'assistant' -%}
{{- ' ' + message.content + '</s>' -}}
{%- else -%}
{{- '[INST] ' + state.system + message.content + ' [/INST]' -}}
{%- set state.system = '' -%}
{%- endif -%}
{%- endfor -%}
"""
ZEPHYR = """\
{%- for message in messages -%}
{{- '<|' + message.role + '|>\\n' + message.content + '</s>\\n' -}}
{%- endfor -%}
{{- '<|assistant|>\\n' -}}
"""
PLAIN = """\
{%- for message in messages -%}
{{- message.role | capitalize + ': ' + message.content + '\\n' -}}
{%- endfor -%}
{{- 'Assistant:' -}}
"""
NAMED = {"chatml": CHATML, "gemma": GEMMA, "llama3": LLAMA3, "mistral": MISTRAL, "plain": PLAIN, "zephyr": ZEPHYR}
ROLES = ("system", "user", "assistant")  # that they know
