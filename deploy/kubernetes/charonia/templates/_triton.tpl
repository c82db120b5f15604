{{/* Who may load a model can run code. So Triton asks for a key, for that and for what no service needs. Kubernetes puts
     the key in the place of its name. */}}
{{- define "charonia.triton.restrictions" -}}
{{- if .Values.secrets.tritonRepositoryKey.existingSecret -}}
{{- $restricted := "model-repository,shared-memory,trace,logging:charonia-repository-key=$(CHARONIA_TRITON_REPOSITORY_KEY)" -}}
- --http-restricted-api={{ $restricted }}
- --grpc-restricted-protocol={{ $restricted }}
{{- end -}}
{{- end -}}

{{/* Triton is a sidecar. It starts before its dispatcher, and stops after it: so a drain finishes its inferences.
     (dict "root" $ "of" the pool's triton) */}}
{{- define "charonia.triton" -}}
- name: triton
  restartPolicy: Always
  image: {{ .of.image | quote }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  {{- with .of.command }}
  command: {{ toJson . }}
  {{- end }}
  args:
    {{- toYaml (concat .of.args (include "charonia.triton.restrictions" .root | fromYamlArray)) | nindent 4 }}
  securityContext:
    {{- include "charonia.containerSecurity" . | nindent 4 }}
  env:
    - {name: HOME, value: /tmp}
    {{- with include "charonia.secret.triton" .root }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- with .of.environment }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - {name: triton-http, containerPort: 8000}
    - {name: triton-grpc, containerPort: 8001}
    - {name: triton-metrics, containerPort: 8002}
  resources:
    {{- toYaml .of.resources | nindent 4 }}
  startupProbe:
    httpGet: {path: /v2/health/ready, port: triton-http}
    periodSeconds: 2
    timeoutSeconds: 5
    failureThreshold: {{ div (add .of.startSeconds 1) 2 }}
  livenessProbe:
    httpGet: {path: /v2/health/live, port: triton-http}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 3
  volumeMounts:
    - {name: triton-tmp, mountPath: /tmp}
    - {name: shared-memory, mountPath: /dev/shm}
    - {name: models, mountPath: /models, readOnly: true}
    {{- with .of.volumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
