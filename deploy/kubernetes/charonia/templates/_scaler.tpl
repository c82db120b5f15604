{{/* Autoscaling of pools. docs/how-to/autoscaling.md explains the query. */}}

{{/* The regular expression of a pool's models, as PromQL has strings: (dict "models" (list "llm-*" "whisper") "pool" "a") */}}
{{- define "charonia.scaler.models" -}}
{{- $expressions := list -}}
{{- range .models -}}
{{- if contains "[" . -}}
{{- fail (printf "pools: %s has the model pattern %q. Autoscaling knows * and ? only: write several patterns." $.pool .) -}}
{{- end -}}
{{- $expressions = append $expressions (regexQuoteMeta . | replace "\\*" ".*" | replace "\\?" ".") -}}
{{- end -}}
{{- join "|" $expressions | quote -}}
{{- end -}}

{{/* Jobs that run or could start now, of a pool's models: (dict "root" $ "of" the pool). Two processes may export the counts
     for a moment, so their maximum counts. Jobs that are scheduled for later or paused do not count. If the catalogue has
     no model of the pool, nobody can submit a job for it: then one pod starts, which registers them. If nobody counts,
     there is no value: a process that does not count exports NaN as the duration of its count. */}}
{{- define "charonia.scaler.query" -}}
{{- $release := .of.autoscaling.selector | default (printf "namespace=%q" .root.Release.Namespace) -}}
{{- $models := printf "%s, model=~%s" $release (include "charonia.scaler.models" (dict "models" .of.models "pool" .of.name)) -}}
sum(max by (model) (charonia_jobs_startable{ {{- $models -}} }))
+ sum(max by (model, status) (charonia_jobs{ {{- $models }}, status=~"processing|canceling"}))
or max(charonia_database_metrics_seconds{ {{- $release -}} } >= bool 0) > 0
{{- end -}}

{{/* Whether a pool scales: then its dispatchers may change their pods. */}}
{{- define "charonia.scaler.isOn" -}}
{{- range .Values.pools -}}
{{- if (mergeOverwrite (deepCopy $.Values.poolDefaults) .).autoscaling.enabled -}}yes{{- end -}}
{{- end -}}
{{- end -}}

{{/* A model leaves the catalogue when no dispatcher has had it for this long, and then nobody can submit a job for it. A
     pool may sleep longer than the day that dispatchers wait by default. */}}
{{- define "charonia.scaler.settings" -}}
{{- if and (include "charonia.scaler.isOn" .) (not (hasKey .Values.settings "CHARONIA_MODEL_GRACE")) -}}
CHARONIA_MODEL_GRACE: 2592000
{{- end -}}
{{- end -}}

{{/* What a dispatcher needs to change its own pod. Triton, which runs models, does not get the token. */}}
{{- define "charonia.scaler.environment" -}}
- name: CHARONIA_POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- end -}}

{{- define "charonia.scaler.mount" -}}
- name: service-account
  mountPath: /var/run/secrets/kubernetes.io/serviceaccount
  readOnly: true
{{- end -}}

{{- define "charonia.scaler.volume" -}}
- name: service-account
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3600}
      - configMap:
          name: kube-root-ca.crt
          items:
            - {key: ca.crt, path: ca.crt}
      - downwardAPI:
          items:
            - path: namespace
              fieldRef: {fieldPath: metadata.namespace}
{{- end -}}
