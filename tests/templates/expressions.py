def cases():
    yield "{{ 1 + 1 }}", {}
