/* Prints kv.h as Rust: its constants, and assertions that our structures have its layout. */
#include "../layout.c"

#include <string.h>

#define COUNT (sizeof layout / sizeof *layout)

int main(void)
{
    for (size_t i = 0; i < COUNT; i++) {
        const char *type = layout[i].type, *field = layout[i].field;
        if (type[0] == '\0' && strncmp(field, "KV_", 3) == 0)
            printf("pub const %s: c_int = %zu;\n", field, layout[i].size);
        else if (strncmp(type, "kv_", 3) == 0 && field[0] == '\0')
            printf("const _: () = assert!(size_of::<%s>() == %zu, \"kv.h: size of %s\");\n", type,
                   layout[i].size, type);
        else if (strncmp(type, "kv_", 3) == 0)
            printf("const _: () = assert!(offset_of!(%s, %s) == %zu, \"kv.h: place of %s.%s\");\n",
                   type, field, layout[i].offset, type, field);
    }
    return ferror(stdout) || fflush(stdout) != 0;
}
