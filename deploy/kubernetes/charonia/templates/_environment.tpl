{{/* The environment of a process. Secrets are references: no value of one is in the chart. */}}

{{- define "charonia.secret" -}}
- name: {{ .variable }}
  valueFrom:
    secretKeyRef:
      name: {{ .name }}
      key: {{ .key }}
{{- end -}}

{{/* The key with which Triton loads models, if it restricts that. */}}
{{- define "charonia.secret.triton" -}}
{{- with .Values.secrets.tritonRepositoryKey -}}
{{- if .existingSecret -}}
{{- include "charonia.secret" (dict "variable" "CHARONIA_TRITON_REPOSITORY_KEY" "name" .existingSecret "key" .key) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Helm reads each number as a float: 16777216 must not become 1.6777216e+07. */}}
{{- define "charonia.scalar" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}
{{- int64 . | toString | quote -}}
{{- else -}}
{{- toString . | quote -}}
{{- end -}}
{{- end -}}

{{/* (dict "root" $ "role" "gateway" "settings" (dict …) "has" (list "amqp" "encryption" "urls" "triton" "store" "proxy"))
     `settings` win over those of all processes. */}}
{{- define "charonia.environment" -}}
{{- $secrets := .root.Values.secrets -}}
{{- $database := $secrets.database -}}
{{ include "charonia.secret" (dict "variable" "CHARONIA_DATABASE_URL" "name" $database.existingSecret "key" (get $database.keys .role)) }}
{{- if has "amqp" .has }}
{{ include "charonia.secret" (dict "variable" "CHARONIA_AMQP_URL" "name" $secrets.amqp.existingSecret "key" $secrets.amqp.key) }}
{{- end }}
{{- if has "encryption" .has }}
{{ include "charonia.secret" (dict "variable" "CHARONIA_ENCRYPTION_KEYS" "name" $secrets.encryptionKeys.existingSecret "key" $secrets.encryptionKeys.key) }}
{{- end }}
{{- if has "urls" .has }}
{{ include "charonia.secret" (dict "variable" "CHARONIA_URL_KEYS" "name" $secrets.urlKeys.existingSecret "key" $secrets.urlKeys.key) }}
{{- end }}
{{- if has "triton" .has }}
{{ include "charonia.secret.triton" .root }}
{{- end }}
{{- if and (has "proxy" .has) $secrets.egressProxy.existingSecret }}
{{ include "charonia.secret" (dict "variable" "CHARONIA_EGRESS_PROXY" "name" $secrets.egressProxy.existingSecret "key" $secrets.egressProxy.key) }}
{{- end }}
{{- if and (has "passwords" .has) $database.keys.rolePasswords }}
{{ include "charonia.secret" (dict "variable" "CHARONIA_ROLE_PASSWORDS" "name" $database.existingSecret "key" $database.keys.rolePasswords) }}
{{- end }}
{{- if has "store" .has }}
{{- range $secrets.store }}
{{ include "charonia.secret" (dict "variable" .variable "name" .existingSecret "key" .key) }}
{{- end }}
{{- end }}
{{- if has "pod" .has }}
{{ include "charonia.scaler.environment" . }}
{{- end }}
{{- range $name, $value := mergeOverwrite (dict) .root.Values.environment .root.Values.settings .settings }}
- name: {{ $name }}
  value: {{ include "charonia.scalar" $value }}
{{- end }}
{{- end -}}
