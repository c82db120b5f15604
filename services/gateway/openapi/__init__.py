"""The OpenAPI document, its examples, and Swagger UI."""
